package engine

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/tidings/tidings/internal/budget"
	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

const (
	// perObject is roughly what the store takes for an object, open or folded: its key and its
	// slot. perEntry is what an index takes per value, and perChanged what a remembered key takes.
	// It is a tenth less if objects came in a list, a tenth more if they came one by one.
	perObject, perEntry, perChanged = 130, 75, 96
	// sampleSize is how many open objects are measured to estimate the size of one. They, and the
	// tables of shared parts, are measured again after 1/resampleShare of all objects, but at least
	// resampleAfter, were changed or opened.
	sampleSize    = 256
	resampleAfter = 1 << 12
	resampleShare = 4
	// One in weighEvery changed objects that stay open is measured. Those of at least largeFactor
	// times the typical size cause a new sample once all like them have 1/largeShare of the budget,
	// but at least minLarge.
	weighEvery, largeFactor = 16, 2
	largeShare, minLarge    = 8, 1 << 20
	// templateSample is how many decoded templates are measured along with them.
	templateSample = 32
	// maxChanged is how many keys of changed objects are remembered.
	maxChanged = 4096
	// foldBatch is how many of these are folded together.
	foldBatch = 500
	// visitBatch is how many objects are examined between checks of the budget.
	visitBatch = 8192
	// Neighbors are repacked together once 1/repackShare of the objects have changed. repackBatch
	// of them are examined before changes continue.
	repackShare = 4
	repackBatch = 4096
	// staleShare: dictionaries that few objects need may take 1/staleShare of the budget before
	// their objects are repacked.
	staleShare = 64
	// arrivalsShare: objects of a first list that are kept open for handlers may take 1/arrivalsShare of the budget.
	arrivalsShare = 8
	// recentShare: folded objects that are open because they were read may take 1/recentShare of the budget.
	recentShare = 32
)

// maxShared returns how much memory a part may use for tables of shared parts; 0 for the default.
func (inf *Informer[T]) maxShared() int {
	if inf.cfg.Memory == nil {
		return 0
	}
	return budget.SharedBytes(inf.cfg.Memory.Bytes())
}

// budgeted is the additional state of an informer with a memory budget. Without one the informer has a nil *budgeted,
// which it may ask and tell all the same: hasStableEncoding, gather, note, relisted and closeAccount allow for that.
type budgeted[T object.Object] struct {
	inf     *Informer[T]
	memory  *budget.Budget
	codec   *codec.Objects[T] // nil if nothing can be folded
	noCodec error             // why codec is nil

	used atomic.Int64 // as last measured
	// mean is the size of an open object, the bits of a float64; gathered is the memory of open
	// objects in lists being read.
	mean     atomic.Uint64
	gathered atomic.Int64

	mu      sync.Mutex // guards what follows
	closed  bool       // the informer has ended
	sampled int        // number of open objects when they were last sampled
	objects int        // number of all objects then
	opens   uint64     // FoldStats.Opens then
	changes int        // number of changes since then
	noted   int        // number of all changes that left an object open
	large   float64    // memory of large objects among the changed ones since then
	shared  int64      // memory of the tables of shared parts, in the source and the codec
	// single is the number of changes since neighbors were last repacked together.
	single int
	// changed are the keys of recently changed objects that are open.
	changed []object.Key

	// arrivals are the latest ones that handlers may not have been notified of. They stay open for
	// that, within a bound.
	arrivals []*openArrivals[T]

	// scanFrom is where the next search for cold objects begins; repackFrom is where repacking
	// neighbors stopped, zero if all were. Both are guarded by Memory.settling.
	scanFrom, repackFrom object.Key
}

// useMemory makes the informer keep to a budget.
func (inf *Informer[T]) useMemory(memory *budget.Budget) {
	b := &budgeted[T]{inf: inf, memory: memory}
	typ := inf.objectType()
	if b.codec, b.noCodec = codec.NewAs[T](typ, budget.SharedBytes(memory.Bytes())); b.noCodec == nil {
		inf.writer.UseCodec(b.codec, typ)
	}
	inf.budget = b
	memory.Add(b)
}

func (b *budgeted[T]) Name() string { return b.inf.cfg.Name }

// closeAccount closes the account of an informer that has ended.
func (b *budgeted[T]) closeAccount() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.closed = true
	used := b.used.Swap(0)
	b.mu.Unlock()
	b.memory.Remove(b, used)
}

// note remembers which objects changed, and enforces the budget. No lock is held.
func (b *budgeted[T]) note(notes []object.Delta[T]) {
	if b == nil {
		return
	}
	now := b.inf.store.Snapshot()
	b.mu.Lock()
	b.changes, b.single = b.changes+len(notes), b.single+len(notes)
	for i := range notes {
		held, ok := now.LikelyHeld(notes[i].Key)
		if !ok || held.IsFolded() {
			continue
		}
		if b.noted++; b.noted%weighEvery == 0 {
			b.large += b.weigh(held.Object())
		}
		if len(b.changed) < maxChanged {
			b.changed = append(b.changed, notes[i].Key.Clone())
		}
	}
	b.mu.Unlock()
	b.Measure()
	b.memory.Settle()
}

// weigh measures one of weighEvery objects. If it is large, weigh returns the memory of all like it, otherwise 0.
func (b *budgeted[T]) weigh(o T) float64 {
	if size := budget.MeanOf([]T{o}); size >= largeFactor*b.meanSize() {
		return weighEvery * size
	}
	return 0
}

// relisted measures open objects again after a list, and enforces the budget. No lock is held.
func (b *budgeted[T]) relisted() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.objects = 0
	b.mu.Unlock()
	b.note(nil)
}

// keepBudget enforces the budget, if there is one, after anything but changes. No lock is held.
func (inf *Informer[T]) keepBudget() { inf.budget.note(nil) }

// openArrivals are arrivals as long as they are open and the collector has not found that no
// handler needs them any more.
type openArrivals[T object.Object] struct {
	arrivals weak.Pointer[store.Arrivals[T]]
	objects  int
}

// keepArrivalsOpen keeps the arrivals open for the handlers as long as there is room; after that
// they are opened again for slow handlers.
func (b *budgeted[T]) keepArrivalsOpen(a *store.Arrivals[T]) {
	open := &openArrivals[T]{weak.Make(a), a.Open()}
	runtime.AddCleanup(a, func(w weak.Pointer[budgeted[T]]) { // a queue may keep the arrivals, and the informer the queue
		if b := w.Value(); b != nil {
			b.forgetArrivals(open)
		}
	}, weak.Make(b))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrivals = append(b.arrivals, open)
	for room := float64(b.memory.Bytes() / arrivalsShare); len(b.arrivals) > 1 && float64(b.openForHandlers())*b.meanSize() > room; {
		b.releaseArrivals(1)
	}
}

// openForHandlers returns how many objects are open for handlers. mu is held.
func (b *budgeted[T]) openForHandlers() (n int) {
	for _, open := range b.arrivals {
		n += open.objects
	}
	return n
}

// releaseArrivals releases the n oldest arrivals. mu is held.
func (b *budgeted[T]) releaseArrivals(n int) {
	for _, open := range b.arrivals[:n] {
		if a := open.arrivals.Value(); a != nil {
			a.Release()
		}
	}
	b.arrivals = slices.Delete(b.arrivals, 0, n)
}

// forgetArrivals forgets arrivals that are gone.
func (b *budgeted[T]) forgetArrivals(open *openArrivals[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.arrivals, open); i >= 0 {
		b.arrivals = slices.Delete(b.arrivals, i, i+1)
	}
}

// Measure implements budget.Account.
func (b *budgeted[T]) Measure() int64 {
	snap := b.inf.store.Snapshot()
	st := snap.FoldStats()
	if b.sample(snap, st) {
		st = snap.FoldStats() // the weight of templates may have changed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0
	}
	open := float64(st.Open+st.Recent+b.inf.guard.sampler.Held()+b.openForHandlers()) * b.meanSize()
	now := st.Bytes + st.TemplateBytes + int64(open) + int64(snap.Len())*perObject + int64(st.IndexEntries)*perEntry + b.gathered.Load() + b.shared + int64(len(b.changed))*perChanged
	used := b.memory.Change(now - b.used.Swap(now))
	left := b.memory.Bytes() - b.memory.Slack() - (used - int64(open) - st.TemplateBytes) // for what need not be folded; with more, folding would never end
	b.inf.store.KeepTemplates(max(left-left/32, b.leastTemplates()))
	return now
}

// leastTemplates is what decoded templates may always take.
func (b *budgeted[T]) leastTemplates() int64 { return b.memory.Bytes() / recentShare }

// Spare implements budget.Account.
func (b *budgeted[T]) Spare() int64 {
	return max(0, b.inf.store.Snapshot().FoldStats().TemplateBytes-b.leastTemplates())
}

func (b *budgeted[T]) meanSize() float64 { return math.Float64frombits(b.mean.Load()) }

// sample measures a sample of open objects again, if their number or many of them have changed. It
// reports whether it did.
func (b *budgeted[T]) sample(snap *store.Snapshot[T], st store.FoldStats) (due bool) {
	b.mu.Lock()
	after := max(resampleAfter, b.objects/resampleShare)
	due = st.Open > b.sampled+b.sampled/2 || b.changes > after || st.Opens > b.opens+uint64(after) || snap.Len() > b.objects+b.objects/2 || b.large > float64(max(minLarge, b.memory.Bytes()/largeShare))
	if due {
		b.sampled, b.objects, b.opens, b.changes, b.large = st.Open, snap.Len(), st.Opens, 0, 0
	}
	b.mu.Unlock()
	if !due {
		return false
	}
	shared := b.sharedBytes()
	b.mu.Lock()
	b.shared = shared
	b.mu.Unlock()
	b.setMean(snap.SampleOpen(sampleSize))
	b.scaleTemplates()
	return true
}

// scaleTemplates adjusts the estimate for decoded templates to a measured sample.
func (b *budgeted[T]) scaleTemplates() {
	objects, guessed := b.inf.store.SampleTemplates(templateSample)
	if size := budget.SizeWithoutText(objects); size > 0 && guessed > 0 {
		b.inf.store.ScaleTemplates(float64(size) / float64(guessed))
	}
}

// sharedBytes returns the memory of the tables of shared parts, in the sources and the codec.
func (b *budgeted[T]) sharedBytes() (bytes int64) {
	for _, p := range b.inf.currentParts() {
		bytes += intake.SharedParts{Of: p.source}.SharedBytes() + p.transform.sharer.SharedBytes()
	}
	if b.codec != nil {
		bytes += b.codec.SharedBytes()
	}
	return bytes
}

// fits reports whether objects with this total size of encodings can all stay open with some room
// to spare. When open most take less than twice that and a kilobyte each; those with many small
// entries take more, which shows once some have been measured.
func (b *budgeted[T]) fits(objects int, encoded int64) bool {
	open := max(2*encoded+int64(objects)<<10, int64(b.meanSize()*float64(objects)))
	return b.memory.Used()+open <= b.memory.Bytes()-b.memory.Bytes()/4
}

// setMean sets the size of an open object to the mean of these.
func (b *budgeted[T]) setMean(objects []T) {
	if len(objects) == 0 {
		return
	}
	mean := budget.MeanOf(objects)
	b.mean.Store(math.Float64bits(mean))
	b.inf.store.KeepRecent(int(float64(b.memory.Bytes()/recentShare) / mean))
}

// OpenBytes implements budget.Account.
func (b *budgeted[T]) OpenBytes() int64 {
	st := b.inf.store.Snapshot().FoldStats()
	return int64(float64(st.Open-st.Unfoldable) * b.meanSize())
}

// Fold implements budget.Account.
func (b *budgeted[T]) Fold(all bool, enough func() bool) {
	b.mu.Lock()
	b.releaseArrivals(len(b.arrivals))
	b.mu.Unlock()
	b.Measure()
	if enough() {
		return
	}
	b.packAgain()
	for !enough() {
		keys := b.takeChanged()
		if len(keys) == 0 {
			break
		}
		b.apply(b.inf.store.PackKeys(keys, all))
	}
	left := b.inf.store.Snapshot().Len()
	for left > 0 && !enough() {
		if st := b.inf.store.Snapshot().FoldStats(); st.Open <= st.Unfoldable {
			return
		}
		cold := b.inf.store.PackCold(b.scanFrom, visitBatch, all)
		b.scanFrom = cold.Next
		left -= max(1, cold.Visited)
		b.apply(cold)
	}
}

// packAgain repacks all objects whose dictionaries few others need, to free these, if they take enough memory.
func (b *budgeted[T]) packAgain() {
	st := b.inf.store.Snapshot().FoldStats()
	if st.StaleBytes <= b.memory.Bytes()/staleShare {
		return
	}
	var next object.Key
	for left := b.inf.store.Snapshot().Len(); left > 0; {
		cold := b.inf.store.PackAgain(next, visitBatch)
		next = cold.Next
		left -= max(1, cold.Visited)
		b.apply(cold)
	}
}

// Repack implements budget.Account.
func (b *budgeted[T]) Repack(enough func() bool) (more bool) {
	if b.repackFrom == (object.Key{}) {
		b.mu.Lock()
		due := b.single >= b.inf.store.Snapshot().Len()/repackShare
		if due {
			b.single = 0
		}
		b.mu.Unlock()
		if !due {
			return false
		}
	}
	for left := repackBatch; left > 0 && !enough(); {
		cold := b.inf.store.PackTogether(b.repackFrom, left)
		b.repackFrom = cold.Next
		left -= max(1, cold.Visited)
		b.apply(cold)
		if b.repackFrom == (object.Key{}) {
			return false
		}
	}
	return b.repackFrom != (object.Key{})
}

// takeChanged takes the oldest keys of changed objects, up to foldBatch.
func (b *budgeted[T]) takeChanged() []object.Key {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.changed), foldBatch)
	keys := b.changed[:n:n]
	b.changed = b.changed[n:]
	if len(b.changed) == 0 {
		b.changed = nil
	}
	return keys
}

// apply folds the packed objects that are still in the store.
func (b *budgeted[T]) apply(cold *store.Cold[T]) {
	if cold.Len() > 0 {
		b.inf.applyFold(cold)
	}
	b.Measure()
}

func (inf *Informer[T]) applyFold(cold *store.Cold[T]) {
	inf.apply.Lock()
	defer inf.unlockApply()
	txn := inf.writer.Begin()
	defer txn.Abort()
	txn.Fold(cold)
	txn.Commit()
}

// MemoryStatus is the memory of an informer's objects. Without a budget only Open is known.
type MemoryStatus struct {
	// Budget is what the informer may take together with those that share the budget, and Used what they take.
	Budget, Used int64
	// Problem says what is wrong if the budget is exceeded.
	Problem string

	Open, Folded int
	// Unfoldable counts the open objects that could not be restored from an encoding; Reason says
	// why, for the one found last.
	Unfoldable int
	Reason     string
	// OpenBytes is estimated from a sample, FoldedBytes is counted, and EncodedBytes is what the
	// folded objects would take encoded but not packed. Bytes is everything that the informer
	// takes.
	OpenBytes, FoldedBytes, EncodedBytes, Bytes int64
	// Opens counts how often a folded object was opened.
	Opens uint64
}

func (inf *Informer[T]) memoryStatus(snap *store.Snapshot[T]) MemoryStatus {
	b := inf.budget
	if b == nil {
		return MemoryStatus{Open: snap.Len()}
	}
	st := snap.FoldStats()
	status := MemoryStatus{
		Budget: b.memory.Bytes(), Bytes: b.Measure(), Open: st.Open, Folded: st.Folded, Unfoldable: st.Unfoldable, Reason: st.Reason,
		OpenBytes: int64(float64(st.Open+st.Recent) * b.meanSize()), FoldedBytes: st.Bytes, EncodedBytes: st.EncodedBytes, Opens: st.Opens,
	}
	if b.noCodec != nil {
		status.Unfoldable, status.Reason = st.Open, b.noCodec.Error()
	}
	status.Used = b.memory.Used()
	if status.Used > status.Budget { // otherwise an informer has ended since
		status.Problem = b.memory.Problem()
	}
	return status
}
