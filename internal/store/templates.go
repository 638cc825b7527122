package store

import (
	"cmp"
	"slices"
	"sync"

	"github.com/tidings/tidings/internal/fold"
)

// templates keeps the latest templates decoded, for opening their patches.
type templates struct {
	mu    sync.Mutex
	kept  []*fold.Dictionary // oldest first
	bytes int64              // of all kept
	limit int64
	root  int64   // size of an object without anything it refers to
	scale float64 // factor from guess to bytesOf; 0 means 1
	// needed reports whether objects of the store need a template.
	needed func(*fold.Dictionary) bool
}

// leastTemplates may always be kept: neighbors need the same one, and a reader of all objects needs
// one after the other.
const leastTemplates = 64 << 10

// guess is a first estimate of the memory of a decoded template. Its strings are parts of its
// encoding, which exists anyway.
func (t *templates) guess(template *fold.Dictionary) int64 {
	return t.root + int64(len(template.Encoded()))*5/4
}

// bytesOf is the scaled estimate of the memory of a decoded template.
func (t *templates) bytesOf(template *fold.Dictionary) int64 {
	return int64(cmp.Or(t.scale, 1) * float64(t.guess(template)))
}

// sample returns up to n of the kept objects, the latest ones, and the sum of their guesses.
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

// setScale sets the scale.
func (t *templates) setScale(scale float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scale = scale
	t.bytes = 0
	for _, template := range t.kept {
		t.bytes += t.bytesOf(template)
	}
	t.evict()
}

// keep keeps a decoded template, and drops the oldest ones if there are too many. A template that
// only outdated snapshots need is not kept: nothing would drop it.
func (t *templates) keep(template *fold.Dictionary, object any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.needed(template) || !template.KeepDecoded(object) {
		return // not needed, or kept already
	}
	t.kept = append(t.kept, template)
	t.bytes += t.bytesOf(template)
	t.evict()
}

// drop drops a decoded template that no object of the store needs any more.
func (t *templates) drop(template *fold.Dictionary) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.kept, template); i >= 0 {
		template.KeepDecoded(nil)
		t.bytes -= t.bytesOf(template)
		t.kept = slices.Delete(t.kept, i, i+1)
	}
}

// evict drops the oldest while there are too many, but never the latest.
func (t *templates) evict() {
	for len(t.kept) > 1 && t.bytes > max(t.limit, leastTemplates) {
		oldest := t.kept[0]
		oldest.KeepDecoded(nil)
		t.bytes -= t.bytesOf(oldest)
		t.kept[0] = nil
		t.kept = t.kept[1:]
	}
}

// forgetIdle drops those that this many passes in a row have found unused, and returns how many are left.
func (t *templates) forgetIdle(passes int) (left int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = slices.DeleteFunc(t.kept, func(template *fold.Dictionary) bool {
		if template.PassDecoded() < passes {
			return false
		}
		template.KeepDecoded(nil)
		t.bytes -= t.bytesOf(template)
		return true
	})
	if len(t.kept) < cap(t.kept)/4 {
		t.kept = slices.Clone(t.kept)
	}
	return len(t.kept)
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
	t.evict()
}
