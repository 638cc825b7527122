// Package memory decides which objects of an informer are open and which are folded. It knows an informer as an Owner.
package memory

import (
	"math"
	"reflect"
	"sync"
	"sync/atomic"

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
	// unlimitedArrivals is how many bytes objects may take that are kept open for handlers without a budget.
	unlimitedArrivals = 16 << 20
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

// PrefersPatches reports whether the next state of an object that is folded as a patch should be decoded as one: when it
// will be folded again at once, or if decoding it is all that is to be done now.
func (b *Account[T]) PrefersPatches() bool {
	return b.HasStableEncoding() && (!b.limited || b.memory.IsMostlyUsed())
}

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
