// Package memory decides which objects of an informer are open and which are folded. It knows an informer as an Owner.
package memory

import (
	"math"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/tidings/tidings/internal/budget"
	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
)

const (
	// PerObject is roughly what the store takes for an object, open or folded: its key and its
	// slot. PerEntry is what an index takes per value, and PerChanged what a remembered key takes.
	// It is a tenth less if objects came in a list, a tenth more if they came one by one.
	PerObject, PerEntry, PerChanged = 130, 75, 96
	// sampleSize is how many open objects are measured to estimate the size of one. They, and the
	// tables of shared parts, are measured again after 1/ResampleShare of all objects, but at least
	// ResampleAfter, were changed or opened.
	sampleSize    = 256
	ResampleAfter = 1 << 12
	ResampleShare = 4
	// One in weighEvery changed objects that stay open is measured. Those of at least largeFactor
	// times the typical size cause a new sample once all like them have 1/largeShare of the budget,
	// but at least minLarge.
	weighEvery, largeFactor = 16, 2
	largeShare, minLarge    = 8, 1 << 20
	// templateSample is how many decoded templates are measured along with them.
	templateSample = 32
	// MaxChanged is how many keys of changed objects are remembered.
	MaxChanged = 4096
	// FoldBatch is how many of these are folded together.
	FoldBatch = 500
	// VisitBatch is how many objects are examined between checks of the budget.
	VisitBatch = 8192
	// Neighbors are repacked together once 1/RepackShare of the objects have changed. RepackBatch
	// of them are examined before changes continue.
	RepackShare = 4
	RepackBatch = 4096
	// StaleShare: dictionaries that few objects need may take 1/StaleShare of the budget before
	// their objects are repacked.
	StaleShare = 64
	// ArrivalsShare: objects of a first list that are kept open for handlers may take 1/ArrivalsShare of the budget.
	ArrivalsShare = 8
	// RecentShare: folded objects that are open because they were read may take 1/RecentShare of the budget.
	RecentShare = 32
	// Without a budget, decoded templates may take 1/templateShare of what folded objects take, and objects that are
	// kept open for handlers unlimitedArrivals bytes.
	templateShare, unlimitedArrivals = 8, 16 << 20
	// packedShare is about how many times smaller packed objects are than open ones.
	packedShare = 4
)

// Owner is an informer as its Account sees it.
type Owner[T object.Object] interface {
	Name() string
	Store() *store.Store[T]
	// Fold folds the packed objects that are still in the store.
	Fold(cold *store.Cold[T])
	// Unfold makes folded objects that were opened open ones.
	Unfold(opening *store.Opening[T])
	// StartFolding makes the store fold objects with the codec.
	StartFolding(codec *codec.Objects[T])
	// LookForWrites has the mutation guard look at what is open.
	LookForWrites()
	// Guarded is how many objects the mutation guard keeps open, besides this many opened ones.
	Guarded(opened int) int
	// SharedBytes is the memory of what the owner's sources remember of objects that share equal parts.
	SharedBytes() int64
}

// Account is what one informer takes of a memory budget. An informer without one has a nil *Account, which it may ask
// and tell all the same.
type Account[T object.Object] struct {
	owner   Owner[T]
	memory  *budget.Budget
	limited bool   // by that budget; otherwise everything fits it
	clock   *Clock // calls pass; nil if the rule is off
	typ     reflect.Type

	activating sync.Mutex
	foldable   atomic.Pointer[foldable[T]] // nil until the account is active
	decision   atomic.Pointer[Decision]
	caller     usercode.Caller // the goroutine that runs pass
	passMu     sync.Mutex      // held during a pass; guards rule
	rule       rule

	used atomic.Int64 // as last measured
	// mean is the size of an open object, the bits of a float64; Gathered is the memory of open
	// objects in lists being read.
	mean     atomic.Uint64
	Gathered atomic.Int64

	mu     sync.Mutex    // guards what follows
	closed bool          // the informer has ended
	passed chan struct{} // closed at the end of the pass that runs; nil if none does
	counts Counts

	// arrivals are the latest ones that handlers may not have been notified of. They stay open for
	// that, within a bound.
	arrivals []*openArrivals[T]

	// scanFrom is where the next search for cold objects begins; repackFrom is where repacking
	// neighbors stopped, zero if all were. Both are guarded by Memory.settling.
	scanFrom, repackFrom object.Key
}

// Counts are what an Account knows of the objects since it last measured some.
type Counts struct {
	Sampled int     // number of open objects when they were last sampled
	Objects int     // number of all objects then
	Opens   uint64  // FoldStats.Opens then
	Changes int     // number of changes since then
	Noted   int     // number of all changes that left an object open
	Large   float64 // memory of large objects among the changed ones since then
	Shared  int64   // memory of the tables of shared parts, in the source and the codec
	// Single is the number of changes since neighbors were last repacked together.
	Single int
	// Changed are the keys of recently changed objects that are open.
	Changed []object.Key
}

// foldable says how the objects of an account are folded, or why they are not.
type foldable[T object.Object] struct {
	codec   *codec.Objects[T] // nil if nothing can be folded
	noCodec error             // why codec is nil
}

// New opens an account for the objects of a type. Without a budget, which is nil then, it is not active, and costs
// nothing, until there is so much that the rule applies. Without a clock the rule does not.
func New[T object.Object](owner Owner[T], memory *budget.Budget, clock *Clock, typ reflect.Type) *Account[T] {
	b := &Account[T]{owner: owner, memory: memory, limited: memory != nil, clock: clock, typ: typ}
	if b.limited {
		b.activate()
	} else {
		b.memory = budget.Unlimited()
	}
	b.memory.Add(b)
	if Eager {
		b.activate()
	}
	return b
}

// isActive reports whether objects may be folded.
func (b *Account[T]) isActive() bool { return b.Codec() != nil }

// activate makes the store fold objects, if it can, and reports whether it can. No lock is held.
func (b *Account[T]) activate() bool {
	b.activating.Lock()
	defer b.activating.Unlock()
	if b.foldable.Load() != nil {
		return b.isActive()
	}
	f := new(foldable[T])
	if f.codec, f.noCodec = codec.NewAs[T](b.typ, b.sharedLimit()); f.noCodec != nil {
		f.codec = nil
		b.decide("open: "+f.noCodec.Error(), 0)
		b.foldable.Store(f)
		return false
	}
	b.owner.StartFolding(f.codec)
	b.foldable.Store(f)
	if b.clock != nil {
		b.decideToFold(b.costs(b.owner.Store().Snapshot().FoldStats()))
		b.owner.Store().KeepFew()
		b.owner.Store().OnOpen(func() { b.clock.wake(b) })
		b.clock.wake(b)
	}
	if !b.limited {
		b.owner.Store().KeepRecent(math.MaxInt32)
	}
	return true
}

// sharedLimit is how much memory decoders may take for what objects have in common; 0 for the default.
func (b *Account[T]) sharedLimit() int {
	if !b.limited {
		return 0
	}
	return budget.SharedBytes(b.memory.Bytes())
}

// Expect prepares for so many bytes of packed objects that are about to be loaded.
func (b *Account[T]) Expect(packed int64) {
	if b != nil && b.clock != nil && packed >= small/packedShare {
		b.activate()
	}
}

// enter registers the calling goroutine as the one of the pass. A stop that user code calls in it does not wait for it.
func (b *Account[T]) enter() (leave func()) {
	passed := make(chan struct{})
	b.mu.Lock()
	b.passed = passed
	b.mu.Unlock()
	b.caller.Enter()
	return func() {
		b.caller.Leave()
		b.mu.Lock()
		b.passed = nil
		b.mu.Unlock()
		close(passed)
	}
}

// Endings returns the end of the pass that runs, if one does.
func (b *Account[T]) Endings() []usercode.Ending {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.passed == nil {
		return nil
	}
	return []usercode.Ending{{Done: b.passed, By: &b.caller}}
}

// Name implements budget.Account.
func (b *Account[T]) Name() string { return b.owner.Name() }

// Inspect calls look with the counts, which it may change. It is for tests.
func (b *Account[T]) Inspect(look func(*Counts)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	look(&b.counts)
}

// MoveTo moves the account to another budget. It is for tests.
func (b *Account[T]) MoveTo(memory *budget.Budget) {
	b.memory = memory
	memory.Add(b)
	b.used.Store(0)
	b.Measure()
}

// Budget returns the budget.
func (b *Account[T]) Budget() *budget.Budget { return b.memory }

// Used returns the memory that the account used when it was last measured.
func (b *Account[T]) Used() int64 { return b.used.Load() }

// Codec returns the codec of the objects; nil if nothing is folded.
func (b *Account[T]) Codec() *codec.Objects[T] {
	if b == nil {
		return nil
	}
	if f := b.foldable.Load(); f != nil {
		return f.codec
	}
	return nil
}

// IsLimited reports whether there is a budget.
func (b *Account[T]) IsLimited() bool { return b != nil && b.limited }

// HasStableEncoding reports whether objects of one version always have the same encoding, so that
// those of lists may be unchanged.
func (b *Account[T]) HasStableEncoding() bool {
	codec := b.Codec()
	return codec != nil && codec.Encoding() == "protobuf"
}

// FoldsAtOnce reports whether a folded object that changes is folded again at once.
func (b *Account[T]) FoldsAtOnce() bool { return Eager || b.limited }

// FoldsSoon reports whether the next objects are likely to be folded soon: of a list, one that is folded as it streams,
// or else of changes. For lists that starts earlier, because they may be large.
func (b *Account[T]) FoldsSoon(listing, streams bool) bool {
	m := b.memory
	switch {
	case Eager:
		return true
	case !b.limited:
		return listing && streams
	case listing:
		return streams || m.Used() > m.Bytes()/4
	}
	return m.Used() > m.Bytes()-2*m.Slack()
}

// Close closes the account of an informer that has ended.
func (b *Account[T]) Close() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.closed = true
	used := b.used.Swap(0)
	b.mu.Unlock()
	if b.clock != nil {
		b.clock.leave(b)
		b.passMu.Lock() // until a pass has ended
		defer b.passMu.Unlock()
	}
	b.memory.Remove(b, used)
}

// Note remembers which objects changed, and enforces the budget. No lock is held.
func (b *Account[T]) Note(notes []object.Delta[T]) {
	if b == nil {
		return
	}
	defer b.noteForRule(len(notes))
	if !b.limited {
		return
	}
	now := b.owner.Store().Snapshot()
	b.mu.Lock()
	b.counts.Changes, b.counts.Single = b.counts.Changes+len(notes), b.counts.Single+len(notes)
	for i := range notes {
		held, ok := now.LikelyHeld(notes[i].Key)
		if !ok || held.IsFolded() {
			continue
		}
		if b.counts.Noted++; b.counts.Noted%weighEvery == 0 {
			b.counts.Large += b.weigh(held.Object())
		}
		if len(b.counts.Changed) < MaxChanged {
			b.counts.Changed = append(b.counts.Changed, notes[i].Key.Clone())
		}
	}
	b.mu.Unlock()
	b.Measure()
	b.memory.Settle()
}

// lookEvery is how many changes an account that is not active waits for before it looks whether there is enough to fold,
// and lookLeast how many objects are too few to look.
const lookEvery, lookLeast = 1024, 64

// noteForRule is Note without a budget. Without changes it looks whether the rule applies now.
func (b *Account[T]) noteForRule(changes int) {
	if b.clock == nil {
		return
	}
	if Eager {
		b.passMu.Lock()
		defer b.passMu.Unlock()
		b.foldIdle(0)
		return
	}
	b.mu.Lock()
	if !b.limited {
		b.counts.Changes, b.counts.Single = b.counts.Changes+changes, b.counts.Single+changes
	}
	look := changes == 0 || b.counts.Changes >= lookEvery
	b.mu.Unlock()
	switch {
	case b.isActive():
		b.clock.wake(b)
	case look && b.foldable.Load() == nil:
		b.mu.Lock()
		b.counts.Changes = 0
		b.mu.Unlock()
		if snap := b.owner.Store().Snapshot(); snap.Len() >= lookLeast {
			b.setMean(snap.SampleOpen(lookLeast))
			if wants(snap.Len(), b.MeanSize()) {
				b.activate()
			}
		}
	}
}

// weigh measures one of weighEvery objects. If it is large, weigh returns the memory of all like it, otherwise 0.
func (b *Account[T]) weigh(o T) float64 {
	if size := budget.MeanOf([]T{o}); size >= largeFactor*b.MeanSize() {
		return weighEvery * size
	}
	return 0
}

// Relisted measures open objects again after a list, and enforces the budget. No lock is held.
func (b *Account[T]) Relisted() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.counts.Objects = 0
	b.mu.Unlock()
	b.Note(nil)
}

// openArrivals are arrivals as long as they are open and the collector has not found that no
// handler needs them any more.
type openArrivals[T object.Object] struct {
	arrivals weak.Pointer[store.Arrivals[T]]
	objects  int
}

// KeepArrivalsOpen keeps the arrivals open for the handlers as long as there is room; after that
// they are opened again for slow handlers.
func (b *Account[T]) KeepArrivalsOpen(a *store.Arrivals[T]) {
	open := &openArrivals[T]{weak.Make(a), a.Open()}
	runtime.AddCleanup(a, func(w weak.Pointer[Account[T]]) { // a queue may keep the arrivals, and the informer the queue
		if b := w.Value(); b != nil {
			b.forgetArrivals(open)
		}
	}, weak.Make(b))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrivals = append(b.arrivals, open)
	for room := float64(b.arrivalsRoom()); len(b.arrivals) > 1 && float64(b.openForHandlers())*b.MeanSize() > room; {
		b.releaseArrivals(1)
	}
}

// arrivalsRoom is how much memory objects may take that stay open for handlers.
func (b *Account[T]) arrivalsRoom() int64 {
	if !b.limited {
		return unlimitedArrivals
	}
	return b.memory.Bytes() / ArrivalsShare
}

// OpenForHandlers returns how many objects are open for handlers.
func (b *Account[T]) OpenForHandlers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.openForHandlers()
}

// openForHandlers returns how many objects are open for handlers. mu is held.
func (b *Account[T]) openForHandlers() (n int) {
	for _, open := range b.arrivals {
		n += open.objects
	}
	return n
}

// releaseArrivals releases the n oldest arrivals. mu is held.
func (b *Account[T]) releaseArrivals(n int) {
	for _, open := range b.arrivals[:n] {
		if a := open.arrivals.Value(); a != nil {
			a.Release()
		}
	}
	b.arrivals = slices.Delete(b.arrivals, 0, n)
}

// forgetArrivals forgets arrivals that are gone.
func (b *Account[T]) forgetArrivals(open *openArrivals[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.arrivals, open); i >= 0 {
		b.arrivals = slices.Delete(b.arrivals, i, i+1)
	}
}

// Measure implements budget.Account.
func (b *Account[T]) Measure() int64 {
	snap := b.owner.Store().Snapshot()
	st := snap.FoldStats()
	if b.sample(snap, st) {
		st = snap.FoldStats() // the weight of templates may have changed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0
	}
	open := float64(st.Open+st.Recent+b.owner.Guarded(st.Recent)+b.openForHandlers()) * b.MeanSize()
	now := st.Bytes + st.TemplateBytes + int64(open) + int64(snap.Len())*PerObject + int64(st.IndexEntries)*PerEntry + b.Gathered.Load() + b.counts.Shared + int64(len(b.counts.Changed))*PerChanged
	used := b.memory.Change(now - b.used.Swap(now))
	left := b.memory.Bytes() - b.memory.Slack() - (used - int64(open) - st.TemplateBytes) // for what need not be folded; with more, folding would never end
	if !b.limited {
		left = st.Bytes / templateShare
	}
	b.owner.Store().KeepTemplates(max(left-left/32, b.leastTemplates()))
	return now
}

// leastTemplates is what decoded templates may always take.
func (b *Account[T]) leastTemplates() int64 {
	if !b.limited {
		return small / templateShare
	}
	return b.memory.Bytes() / RecentShare
}

// Spare implements budget.Account.
func (b *Account[T]) Spare() int64 {
	return max(0, b.owner.Store().Snapshot().FoldStats().TemplateBytes-b.leastTemplates())
}

// MeanSize returns the estimated size of an open object; 0 if none was measured.
func (b *Account[T]) MeanSize() float64 { return math.Float64frombits(b.mean.Load()) }

// sample measures a sample of open objects again, if their number or many of them have changed. It
// reports whether it did.
func (b *Account[T]) sample(snap *store.Snapshot[T], st store.FoldStats) (due bool) {
	b.mu.Lock()
	after := max(ResampleAfter, b.counts.Objects/ResampleShare)
	due = st.Open > b.counts.Sampled+b.counts.Sampled/2 || b.counts.Changes > after || st.Opens > b.counts.Opens+uint64(after) || snap.Len() > b.counts.Objects+b.counts.Objects/2 || b.counts.Large > float64(max(minLarge, b.memory.Bytes()/largeShare))
	if due {
		b.counts.Sampled, b.counts.Objects, b.counts.Opens, b.counts.Changes, b.counts.Large = st.Open, snap.Len(), st.Opens, 0, 0
	}
	b.mu.Unlock()
	if !due {
		return false
	}
	shared := b.SharedBytes()
	b.mu.Lock()
	b.counts.Shared = shared
	b.mu.Unlock()
	b.setMean(snap.SampleOpen(sampleSize))
	b.ScaleTemplates()
	return true
}

// ScaleTemplates adjusts the estimate for decoded templates to a measured sample.
func (b *Account[T]) ScaleTemplates() {
	objects, guessed := b.owner.Store().SampleTemplates(templateSample)
	if size := budget.SizeWithoutText(objects); size > 0 && guessed > 0 {
		b.owner.Store().ScaleTemplates(float64(size) / float64(guessed))
	}
}

// SharedBytes returns the memory of the tables of shared parts, in the sources and the codec.
func (b *Account[T]) SharedBytes() (bytes int64) {
	bytes = b.owner.SharedBytes()
	if codec := b.Codec(); codec != nil {
		bytes += codec.SharedBytes()
	}
	return bytes
}

// fits reports whether objects with this total size of encodings can all stay open with some room
// to spare. When open most take less than twice that and a kilobyte each; those with many small
// entries take more, which shows once some have been measured.
func (b *Account[T]) fits(objects int, encoded int64) bool {
	open := max(2*encoded+int64(objects)<<10, int64(b.MeanSize()*float64(objects)))
	if !b.limited {
		return open <= small && !Eager
	}
	return b.memory.Used()+open <= b.memory.Bytes()-b.memory.Bytes()/4
}

// AssumeSize makes the account count open objects with this size until it measures some. It is for tests.
func (b *Account[T]) AssumeSize(mean float64) { b.mean.Store(math.Float64bits(mean)) }

// setMean sets the size of an open object to the mean of these.
func (b *Account[T]) setMean(objects []T) {
	if len(objects) == 0 {
		return
	}
	mean := budget.MeanOf(objects)
	b.mean.Store(math.Float64bits(mean))
	if b.limited {
		b.owner.Store().KeepRecent(int(float64(b.memory.Bytes()/RecentShare) / mean))
	}
}

// OpenBytes implements budget.Account.
func (b *Account[T]) OpenBytes() int64 {
	st := b.owner.Store().Snapshot().FoldStats()
	return int64(float64(st.Open-st.Unfoldable) * b.MeanSize())
}

// Fold implements budget.Account.
func (b *Account[T]) Fold(all bool, enough func() bool) {
	b.mu.Lock()
	b.releaseArrivals(len(b.arrivals))
	b.mu.Unlock()
	b.Measure()
	if enough() {
		return
	}
	b.PackAgain()
	for !enough() {
		keys := b.TakeChanged()
		if len(keys) == 0 {
			break
		}
		b.Apply(b.owner.Store().PackKeys(keys, all))
	}
	left := b.owner.Store().Snapshot().Len()
	for left > 0 && !enough() {
		if st := b.owner.Store().Snapshot().FoldStats(); st.Open <= st.Unfoldable {
			return
		}
		cold := b.owner.Store().PackCold(b.scanFrom, VisitBatch, all)
		b.scanFrom = cold.Next
		left -= max(1, cold.Visited)
		b.Apply(cold)
	}
}

// PackAgain repacks all objects whose dictionaries few others need, to free these, if they take enough memory.
func (b *Account[T]) PackAgain() {
	st := b.owner.Store().Snapshot().FoldStats()
	if st.StaleBytes <= b.memory.Bytes()/StaleShare {
		return
	}
	var next object.Key
	for left := b.owner.Store().Snapshot().Len(); left > 0; {
		cold := b.owner.Store().PackAgain(next, VisitBatch)
		next = cold.Next
		left -= max(1, cold.Visited)
		b.Apply(cold)
	}
}

// Repack implements budget.Account.
func (b *Account[T]) Repack(enough func() bool) (more bool) {
	if b.repackFrom == (object.Key{}) {
		b.mu.Lock()
		due := b.counts.Single >= b.owner.Store().Snapshot().Len()/RepackShare
		if due {
			b.counts.Single = 0
		}
		b.mu.Unlock()
		if !due {
			return false
		}
	}
	for left := RepackBatch; left > 0 && !enough(); {
		cold := b.owner.Store().PackTogether(b.repackFrom, left)
		b.repackFrom = cold.Next
		left -= max(1, cold.Visited)
		b.Apply(cold)
		if b.repackFrom == (object.Key{}) {
			return false
		}
	}
	return b.repackFrom != (object.Key{})
}

// TakeChanged takes the oldest keys of changed objects, up to FoldBatch.
func (b *Account[T]) TakeChanged() []object.Key {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.counts.Changed), FoldBatch)
	keys := b.counts.Changed[:n:n]
	b.counts.Changed = b.counts.Changed[n:]
	if len(b.counts.Changed) == 0 {
		b.counts.Changed = nil
	}
	return keys
}

// Apply folds the packed objects that are still in the store.
func (b *Account[T]) Apply(cold *store.Cold[T]) {
	if cold.Len() > 0 {
		b.owner.Fold(cold)
	}
	b.Measure()
}
