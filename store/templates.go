package store

import (
	"cmp"
	"slices"
	"sync"

	"github.com/tidings/tidings/internal/fold"
)

// templates are those that are kept decoded, because objects that are patches of them are opened: the latest ones.
type templates struct {
	mu    sync.Mutex
	kept  []*fold.Dictionary // in the order in which they came
	bytes int64              // of all kept
	limit int64
	root  int64   // what one object takes without anything that it refers to
	scale float64 // what bytesOf is of guess; 0 is 1
	// needed reports whether objects of the store need a template.
	needed func(*fold.Dictionary) bool
}

// leastTemplates is what may be kept in any case: neighbors need the same, and who reads all objects needs one after the other.
const leastTemplates = 64 << 10

// guess is about what a decoded template takes, as long as nothing is known better. Its strings are parts of its encoding, which is there anyway.
func (t *templates) guess(template *fold.Dictionary) int64 {
	return t.root + int64(len(template.Encoded()))*5/4
}

// bytesOf is about what a decoded template takes.
func (t *templates) bytesOf(template *fold.Dictionary) int64 {
	return int64(cmp.Or(t.scale, 1) * float64(t.guess(template)))
}

// sample returns up to n of those that are kept, the latest ones, and what they would count for at a scale of 1.
func (t *templates) sample(n int) (objects []any, guessed int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, template := range t.kept[max(0, len(t.kept)-n):] {
		if object := template.KeptDecoded(); object != nil {
			objects, guessed = append(objects, object), guessed+t.guess(template)
		}
	}
	return objects, guessed
}

// count sets the scale.
func (t *templates) count(scale float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scale = scale
	t.bytes = 0
	for _, template := range t.kept {
		t.bytes += t.bytesOf(template)
	}
	t.shrink()
}

// keep keeps what a template was decoded to, and drops that of others where there are too many. One that only snapshots need which are no more current is
// not kept: nothing would drop it.
func (t *templates) keep(template *fold.Dictionary, object any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.needed(template) || !template.KeepDecoded(object) {
		return // or it is here
	}
	t.kept = append(t.kept, template)
	t.bytes += t.bytesOf(template)
	t.shrink()
}

// drop drops what a template was decoded to that no object of the store needs any more.
func (t *templates) drop(template *fold.Dictionary) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.kept, template); i >= 0 {
		template.KeepDecoded(nil)
		t.bytes -= t.bytesOf(template)
		t.kept = slices.Delete(t.kept, i, i+1)
	}
}

// shrink drops the oldest where there are too many, but for the latest.
func (t *templates) shrink() {
	for len(t.kept) > 1 && t.bytes > max(t.limit, leastTemplates) {
		oldest := t.kept[0]
		oldest.KeepDecoded(nil)
		t.bytes -= t.bytesOf(oldest)
		t.kept[0] = nil
		t.kept = t.kept[1:]
	}
}

func (t *templates) size() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bytes
}

// resize sets how many bytes may be kept.
func (t *templates) resize(limit int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit = limit
	t.shrink()
}
