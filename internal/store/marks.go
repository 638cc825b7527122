package store

import (
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/tidings/tidings/internal/tree"
)

// marks has a bit for each slot, which readers set and the writer clears. All snapshots share its
// pages: they are about the store, not about one moment. Setting a bit that is already set writes
// nothing.
type marks struct {
	pages []*markPage
}

const (
	markWordBits = 64
	markPageBits = 64 * markWordBits
)

type markPage [markPageBits / markWordBits]atomic.Uint64

// grow makes room for n slots. Existing copies of m stay as they are.
func (m *marks) grow(n tree.Slot) {
	for len(m.pages)*markPageBits < int(n) {
		m.pages = append(slices.Clip(m.pages), new(markPage))
	}
}

// word returns the word and mask of n's bit, nil if it is beyond the pages.
func (m *marks) word(n tree.Slot) (word *atomic.Uint64, bit uint64) {
	page := int(n / markPageBits)
	if page >= len(m.pages) {
		return nil, 0
	}
	return &m.pages[page][n%markPageBits/markWordBits], 1 << (n % markWordBits)
}

func (m *marks) set(n tree.Slot) {
	if word, bit := m.word(n); word != nil && word.Load()&bit == 0 {
		word.Or(bit)
	}
}

// clear clears the bit and reports whether it was set.
func (m *marks) clear(n tree.Slot) bool {
	word, bit := m.word(n)
	if word == nil || word.Load()&bit == 0 {
		return false
	}
	word.And(^bit)
	return true
}

// count returns how many bits are set.
func (m *marks) count() int {
	n := 0
	for _, page := range m.pages {
		for i := range page {
			n += bits.OnesCount64(page[i].Load())
		}
	}
	return n
}

func (m *marks) has(n tree.Slot) bool {
	word, bit := m.word(n)
	return word != nil && word.Load()&bit != 0
}
