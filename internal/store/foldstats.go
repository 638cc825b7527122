package store

import (
	"math/rand/v2"
	"time"
	"unsafe"

	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/tree"
)

// FoldStats has the numbers and sizes of the open and folded objects of a store.
type FoldStats struct {
	Open, Folded int // numbers of objects
	// Unfoldable counts the open objects that could not be restored from an encoding; Reason says
	// why the last one could not.
	Unfoldable int
	Reason     string
	// IndexEntries counts the entries of all indexes, one per object and value.
	IndexEntries int
	// Recent counts the folded objects that are kept open because they were read one by one.
	Recent int
	// Bytes is the memory of folded objects, including dictionaries, the table of opened ones (with
	// those that nobody has held since the last garbage collection), and everything else.
	// EncodedBytes is their size when encoded.
	Bytes, EncodedBytes int64
	// TemplateBytes estimates the memory of templates that are kept decoded.
	TemplateBytes int64
	// StaleBytes is the memory of dictionaries with so few objects that Store.PackAgain saves memory.
	StaleBytes int64
	// Opens counts how often an object was opened, and Spent what that has taken, from samples. OpenTime is the mean of
	// late; 0 if none was timed.
	Opens           uint64
	Spent, OpenTime time.Duration
	// Scanned counts the objects that readers of many have read, open or folded.
	Scanned uint64
	// Survivors is how many opened objects somebody held after the last garbage collection, of which there were
	// Collections since the first.
	Survivors   int
	Collections uint64
}

// FoldStats returns the fold statistics. In a store without a codec everything is open.
func (s *Snapshot[T]) FoldStats() FoldStats {
	st := FoldStats{Open: s.Len()}
	for i := range s.indexes {
		st.IndexEntries += s.indexes[i].len()
	}
	if s.folds == nil {
		return st
	}
	f := s.folds
	packed := f.packer.Stats()
	st.Folded, st.Open, st.Unfoldable = f.count, s.Len()-f.count, f.unfoldable.count()
	if reason := f.unencoded.Load(); reason != nil && st.Unfoldable > 0 {
		st.Reason = *reason
	}
	st.Recent, st.Opens, st.EncodedBytes = f.recent.len(), f.opens.Load(), packed.OpenedBytes
	st.Spent, st.OpenTime = time.Duration(f.costs.spent.Load()), time.Duration(f.costs.nanos.Load())
	st.Scanned = f.costs.scanned.Load()
	st.Survivors, st.Collections = int(f.opened.survivors.Load()), f.opened.collections.Load()
	st.StaleBytes, st.TemplateBytes = packed.StaleBytes, f.templates.size()
	st.Bytes = packed.Bytes() + int64(f.count)*entryBytes + f.opened.bytes()
	return st
}

// entryBytes is the memory of a folded object besides its packed bytes: its entry, and the pointer to it.
const entryBytes = int64(unsafe.Sizeof(fold.Packed{})+unsafe.Sizeof(identity{})) + 8 + 8

// KeepRecent sets how many folded objects are kept open after they were read one by one, initially 0.
func (s *Store[T]) KeepRecent(n int) {
	if f := s.Snapshot().folds; f != nil {
		f.recent.resize(n)
	}
}

// KeepFew makes readers of an index keep what they read open for a while, like readers of single objects, if it is little.
func (s *Store[T]) KeepFew() {
	if f := s.Snapshot().folds; f != nil {
		f.keepsFew.Store(true)
	}
}

// KeepTemplates sets how many bytes decoded templates may take. A few are always kept.
func (s *Store[T]) KeepTemplates(bytes int64) {
	if f := s.Snapshot().folds; f != nil {
		f.templates.resize(bytes)
	}
}

// SampleTemplates returns up to n decoded templates, and what they would count for in
// FoldStats.TemplateBytes without ScaleTemplates. Their strings are parts of memory that is counted
// already.
func (s *Store[T]) SampleTemplates(n int) (objects []T, guessed int64) {
	f := s.Snapshot().folds
	if f == nil {
		return nil, 0
	}
	sample, guessed := f.templates.sample(n)
	for _, o := range sample {
		objects = append(objects, o.(T))
	}
	return objects, guessed
}

// ScaleTemplates sets the factor by which to multiply the guesses of SampleTemplates.
func (s *Store[T]) ScaleTemplates(scale float64) {
	if f := s.Snapshot().folds; f != nil {
		f.templates.setScale(scale)
	}
}

// samplePage is how many neighbors of a page are sampled: few, because neighbors have similar
// sizes, but not one, because they share parts.
const samplePage = 8

// maxPages is how many pages are examined per sampled object, if few objects are open.
const maxPages = 16

// SampleOpen returns about n of the open objects: groups of neighbors, chosen at random, none twice.
func (s *Snapshot[T]) SampleOpen(n int) []T {
	pages := s.objects.Pages()
	if pages == 0 {
		return nil
	}
	var sample []T
	step := stepThrough(pages)
	for page, left := rand.IntN(pages), min(pages, maxPages*n); left > 0 && len(sample) < n; left-- {
		sample = s.appendPage(sample, page)
		page = (page + step) % pages
	}
	return sample
}

// stepThrough returns a random step that visits all of n places before returning to the first.
func stepThrough(n int) int {
	for {
		step := 1 + rand.IntN(n)
		a, b := n, step
		for b > 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return step
		}
	}
}

// appendPage appends some neighbors of a page.
func (s *Snapshot[T]) appendPage(sample []T, page int) []T {
	p := s.objects.Page(page)
	if p == nil {
		return sample
	}
	most := len(sample) + samplePage
	for i, from := 0, rand.IntN(tree.PageSize); i < tree.PageSize && len(sample) < most; i++ {
		if o := p[(from+i)%tree.PageSize]; !isNone(o) {
			sample = append(sample, o)
		}
	}
	return sample
}
