package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/deltafifo"
	"github.com/tidings/tidings/internal/absent"
	"github.com/tidings/tidings/internal/assert"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// waitForRoom waits until Block handlers have room in their queues. The apply lock is not held, so
// handlers can be added and removed meanwhile. It does not wait while somebody waits for a version,
// since that may be such a handler.
func (inf *Informer[T]) waitForRoom(ctx context.Context) {
	for _, s := range inf.subscriptions() {
		if s.opts.Queue.Policy != deltafifo.Block || !s.queue.Full() {
			continue
		}
		wait, cancel := context.WithCancel(inf.versionWaits.idleContext())
		unlink := context.AfterFunc(ctx, cancel)
		_ = s.queue.WaitForRoom(wait) // whatever ends the wait, the part continues
		unlink()
		cancel()
	}
}

// applyChanges takes changes through the store to the handlers' queues, and returns the notifications.
func (inf *Informer[T]) applyChanges(p *part[T], changes []intake.Change[T], version string) []object.Delta[T] {
	inf.apply.Lock()
	defer inf.unlockApply()
	if p.removed {
		return nil
	}
	txn := inf.writer.Begin()
	defer txn.Abort()
	subs := inf.subscriptions()
	a := applying[T]{txn: txn, deletions: &p.deletions, inFlight: &p.inFlight, compare: p.compares, silent: !inf.wantsObjects()}
	if p.transform.isSet() {
		a.leftOut = &p.transform.leftOut
	}
	notes := a.changes(changes)
	txn.Advance(p.namespace, version)
	snap := txn.Commit()
	inf.push(subs, notes, snap.ResourceVersion())
	return notes
}

// applyArrivals puts objects of an unfinished first list into the store and notifies the handlers
// of them. It returns false if the part was removed.
func (inf *Informer[T]) applyArrivals(p *part[T], g *store.Gathering[T], a *store.Arrivals[T]) bool {
	p.guardArrivals(a, g.Len())
	inf.apply.Lock()
	defer inf.unlockApply()
	if p.removed {
		return false
	}
	txn := inf.writer.Begin()
	defer txn.Abort()
	txn.PutArrivals(g, a, p.namespace)
	txn.Commit()
	inf.pushInitial(a)
	return true
}

// pushInitial adds objects of an initial list to the handlers' queues. apply is held.
func (inf *Informer[T]) pushInitial(objects object.Collection[T]) {
	if objects.Len() == 0 {
		return
	}
	for _, s := range inf.subscriptions() {
		s.sync(objects, true)
	}
}

// applyList makes the objects the whole content of the part.
func (inf *Informer[T]) applyList(p *part[T], objects object.Collection[T], version string, how replacement) {
	inf.apply.Lock()
	defer inf.unlockApply()
	if p.removed {
		return
	}
	txn := inf.writer.Begin()
	defer txn.Abort()
	txn.LeaveFolded(memory.FoldBatch)
	before := inf.store.Snapshot()
	fromNothing := p.beginsFromNothing(before)
	if fromNothing || len(inf.subscriptions()) == 0 {
		txn.Silence()
	}
	if p.isOlder(version, before) {
		how = otherHistory
	}
	if how == otherHistory {
		txn.Rewritten()
	}
	if how != newerOnly {
		defer p.file.Invalidate() // after the commit: what a save read before that may be of the old history
	}
	notes := txn.Replace(p.namespace, objects, version, how != newerOnly)
	if key, ok := txn.Contradicted(); ok {
		p.healing.contradicted.Store(true)
		p.forceRelist(contradictedError{key, version})
	}
	removed := txn.Removed()
	snap := txn.Commit()
	if p.reflector.Status().UnprovenVersions {
		p.deletions.TurnOff()
	} else {
		p.deletions.Relisted(version)
	}
	p.noteResolved()
	inf.pushRemoved(inf.subscriptions(), removed)
	if fromNothing {
		inf.pushInitial(snap.In(p.namespace))
	} else {
		p.markInitial(notes)
		inf.push(inf.subscriptions(), notes, version)
	}
	p.begun() // after the objects, since it marks in the queues that they are all there
}

// markInitial marks added objects as part of the initial list, while the part begins.
func (p *part[T]) markInitial(notes []object.Delta[T]) {
	if p.beginning.over() {
		return
	}
	for i := range notes {
		notes[i].Initial = notes[i].Type == object.Added
	}
}

// push adds notifications to the handlers' queues. apply is held.
func (inf *Informer[T]) push(subs []*Subscription[T], notes []object.Delta[T], version string) {
	if len(notes) == 0 {
		return
	}
	for _, s := range subs {
		s.queue.Add(notes, version)
	}
}

// pushRemoved adds the deletions of many folded objects to the handlers' queues; each is opened
// when its turn comes. apply is held.
func (inf *Informer[T]) pushRemoved(subs []*Subscription[T], removed *store.Removed[T]) {
	if removed.Len() == 0 {
		return
	}
	for _, s := range subs {
		s.queue.Delete(s.looksAt(removed), "")
	}
}

// checkSynced closes synced, and tells the handlers that do not know it yet, once every part has
// begun. The informer runs; apply and mu are held.
func (inf *Informer[T]) checkSynced() {
	if !allBegun(inf.parts) {
		return
	}
	if !inf.everSynced() {
		close(inf.synced)
	}
	for _, s := range inf.subs {
		if !s.marked {
			s.marked = true
			s.queue.Mark()
		}
	}
}

// applying writes the changes of one part to the store.
type applying[T object.Object] struct {
	txn       *store.Txn[T]
	deletions *absent.Deletions
	inFlight  *inFlight[T]
	leftOut   *absent.LeftOut // by the transform; nil without one
	// state is that of the present change, leaves its type if the transform leaves it out, else 0.
	state  intake.State
	leaves object.DeltaType
	// compare says that a repeated version does not prove that the object is unchanged.
	compare bool
	// silent says that no handler uses objects, so that previous states need not be opened.
	silent bool
}

// changes writes changes to the store and returns the notifications.
func (a *applying[T]) changes(changes []intake.Change[T]) []object.Delta[T] {
	notes := make([]object.Delta[T], 0, len(changes))
	for i := range changes {
		if a.state = changes[i].State; a.inFlight.leftOut != nil {
			a.leaves = a.inFlight.leftOut[i]
		}
		notes = a.delta(changes[i].Delta, notes)
	}
	return notes
}

// delta writes d to the store and appends the resulting notifications to notes. It ignores states
// that are older than the one in the store, the same one again, and states of an object that is
// known to be gone. A state is the same one if it has the same version and, unless the source can
// be trusted to number states, the same contents: fake clients never raise the version of an
// object.
func (a *applying[T]) delta(d object.Delta[T], notes []object.Delta[T]) []object.Delta[T] {
	if d.Type == object.Deleted {
		return a.delete(d, notes)
	}
	// Written first and undone if stale, which is rare: that way the key is looked up once.
	held, exists := a.put(&d)
	version := d.Object.GetResourceVersion()
	if !exists {
		if a.deletions.IsStale(d.Key, version) {
			assert.Reached("an event is older than its object's deletion")
			a.txn.Remove(d.Key)
			return notes
		}
		if a.leftOut != nil {
			a.leftOut.Note(d.Key, false)
		}
		return append(notes, object.Delta[T]{Type: object.Added, Key: d.Key, Object: d.Object})
	}
	have, recreated := held.ResourceVersion(), anotherObject(held.UID(), d.Object.GetUID())
	repeated := version == have && version != "" && !recreated
	if repeated && a.compare && held.Differs(d.Object) {
		repeated = false
		a.deletions.TurnOffForever()
	}
	if repeated || a.deletions.IsOlder(version, have) {
		assert.Reached("an event repeats what the store has")
		a.txn.PutBack(held)
		return notes
	}
	if recreated {
		assert.Reached("an object was recreated, and its deletion not seen")
		return append(notes,
			object.Delta[T]{Type: object.Deleted, Key: d.Key, Object: a.before(&held), FinalStateUnknown: true},
			object.Delta[T]{Type: object.Added, Key: d.Key, Object: d.Object})
	}
	return append(notes, object.Delta[T]{Type: object.Updated, Key: d.Key, Object: d.Object, Old: a.before(&held)})
}

// put writes the object of a delta to the store.
func (a *applying[T]) put(d *object.Delta[T]) (old store.Held[T], existed bool) {
	if e := a.inFlight.encodingOf(a.state); !e.IsZero() {
		return a.txn.PutCold(d.Key, d.Object, e)
	}
	return a.txn.Put(d.Key, d.Object)
}

// delete is delta for a deletion. It is recorded even if the store has no such object: an older state of it may follow.
func (a *applying[T]) delete(d object.Delta[T], notes []object.Delta[T]) []object.Delta[T] {
	version := d.Object.GetResourceVersion()
	a.deletions.Record(d.Key, version)
	held, exists := a.txn.Held(d.Key)
	if exists && a.deletions.IsOlder(version, held.ResourceVersion()) {
		assert.Reached("a deletion is older than the object")
		return notes
	}
	if a.leftOut != nil {
		a.leftOut.Note(d.Key, a.leaves != 0 && a.leaves != object.Deleted)
	}
	if !exists {
		return notes
	}
	a.txn.Remove(d.Key)
	before := a.before(&held)
	if uid := d.Object.GetUID(); uid != held.UID() && uid != "" { // held was deleted before, unseen
		return append(notes, object.Delta[T]{Type: object.Deleted, Key: d.Key, Object: before, Old: before, FinalStateUnknown: true})
	}
	if a.leaves != 0 { // handlers know nothing of the state that the transform rejected
		return append(notes, object.Delta[T]{Type: object.Deleted, Key: d.Key, Object: before, Old: before})
	}
	return append(notes, object.Delta[T]{Type: object.Deleted, Key: d.Key, Object: d.Object, Old: before, FinalStateUnknown: d.FinalStateUnknown})
}

// before returns the previous state of an object, if any handler uses objects.
func (a *applying[T]) before(held *store.Held[T]) T {
	if a.silent && held.IsFolded() {
		var none T
		return none
	}
	return held.ObjectAlone()
}

// anotherObject reports whether two uids under one key are known to be those of different objects.
func anotherObject(a, b types.UID) bool { return a != b && a != "" && b != "" }
