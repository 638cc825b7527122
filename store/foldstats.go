package store

import (
	"math/rand/v2"
	"unsafe"

	"github.com/tidings/tidings/internal/fold"
)

// FoldStats is what the folded objects of a store are and take.
type FoldStats struct {
	Open, Folded int // objects
	// Unfoldable are those of the open ones that were found not to be had back from an encoding, Reason why the last one cannot.
	Unfoldable int
	Reason     string
	// IndexEntries are how often objects are in indexes, once for each value.
	IndexEntries int
	// Recent are the folded objects that are kept open because they were read one by one.
	Recent int
	// Bytes is what the folded objects take, with their dictionaries, the table that finds opened ones, and all else. EncodedBytes is what they would take encoded.
	Bytes, EncodedBytes int64
	// TemplateBytes is about what objects take that are kept decoded because others are patches of them.
	TemplateBytes int64
	// StaleBytes is what the dictionaries take whose objects are so few that Store.PackAgain saves memory.
	StaleBytes int64
	// Opens counts how often an object was opened.
	Opens uint64
}

// FoldStats returns what is folded. In a store without a codec everything is open.
func (s *Snapshot[T]) FoldStats() FoldStats {
	st := FoldStats{Open: s.Len()}
	for i := range s.indexes {
		if root := s.indexes[i].root; root != nil {
			st.IndexEntries += root.size
		}
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
	st.StaleBytes, st.TemplateBytes = packed.StaleBytes, f.templates.size()
	st.Bytes = packed.Bytes() + int64(f.count)*entryBytes + f.opened.bytes()
	return st
}

// entryBytes is what a folded object takes besides what is packed: its entry, and the pointer to it.
const entryBytes = int64(unsafe.Sizeof(fold.Packed{})+unsafe.Sizeof(identity{})) + 8 + 8

// KeepRecent sets how many folded objects are kept open after they were read one by one. It is 0 at first.
func (s *Store[T]) KeepRecent(n int) {
	if f := s.Snapshot().folds; f != nil {
		f.recent.resize(n)
	}
}

// ForgetUnheld forgets where the opened objects are that nobody holds any more, if the garbage was collected since it was called last. They count in
// FoldStats.Bytes until then.
func (s *Store[T]) ForgetUnheld() {
	if f := s.Snapshot().folds; f != nil {
		f.opened.tidy()
	}
}

// KeepTemplates sets how many bytes those objects may take that are kept decoded because others are patches of them. A few are kept in any case.
func (s *Store[T]) KeepTemplates(bytes int64) {
	if f := s.Snapshot().folds; f != nil {
		f.templates.resize(bytes)
	}
}

// SampleTemplates returns some n of the objects that are kept decoded because others are patches of them, and what these n would count for in
// FoldStats.TemplateBytes without ScaleTemplates. Their strings are parts of what is counted already.
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

// ScaleTemplates lets such objects count for so many times what SampleTemplates guesses.
func (s *Store[T]) ScaleTemplates(scale float64) {
	if f := s.Snapshot().folds; f != nil {
		f.templates.count(scale)
	}
}

// samplePage is how many neighbors of a page are in a sample: few, because neighbors are of one size, and not one, because they share parts.
const samplePage = 8

// maxPages is how many pages are looked at for each object of a sample, when few objects are open.
const maxPages = 16

// SampleOpen returns about n of the open objects: groups of neighbors, chosen at random, none twice.
func (s *Snapshot[T]) SampleOpen(n int) []T {
	pages := len(s.objects.branches) * branchSize
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

// stepThrough returns a random step that leads through all of n places before it comes to one again.
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

// appendPage appends neighbors of a page.
func (s *Snapshot[T]) appendPage(sample []T, page int) []T {
	p := s.objects.branches[page/branchSize].pages[page%branchSize]
	if p == nil {
		return sample
	}
	most := len(sample) + samplePage
	for i, from := 0, rand.IntN(pageSize); i < pageSize && len(sample) < most; i++ {
		if o := p[(from+i)%pageSize]; any(o) != any(*new(T)) {
			sample = append(sample, o)
		}
	}
	return sample
}
