package tidings

import (
	"context"
	"iter"
	"time"

	"github.com/tidings/tidings/deltafifo"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/store"
)

// process applies what is queued. It returns when the caller's own deltas are in the store and pushed to every
// subscription, or when ctx has ended.
func (c *core[T]) process(ctx context.Context) {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.waitForRoom(ctx)
	c.apply.Lock()
	defer c.apply.Unlock()
	for ctx.Err() == nil && c.applyNext() {
	}
}

// waitForRoom lets Block subscriptions hold back the informer. The apply lock is not held meanwhile, so
// handlers can be added and removed.
func (c *core[T]) waitForRoom(ctx context.Context) {
	c.mu.Lock()
	subs := c.subs
	c.mu.Unlock()
	for _, s := range subs {
		s.waitForRoom(ctx)
	}
}

// applyNext takes one batch through the store to the subscriptions. apply is held.
func (c *core[T]) applyNext() bool {
	txn := c.writer.Begin()
	b, ok := c.queue.Pop(func(part deltafifo.Part) iter.Seq2[Key, T] { return c.known(txn, part) })
	if !ok {
		txn.Abort()
		return false
	}
	p := c.parts[b.Part]
	seen := p.version()
	if b.Replaced {
		seen = "" // what a list shows is there, however old its state
	}
	told := make([]object.Delta[T], 0, len(b.Deltas))
	if b.Replaced && txn.Len() == 0 {
		told = load(txn, b.Deltas, told)
	} else {
		for _, d := range b.Deltas {
			told = applyDelta(txn, d, seen, told)
		}
	}
	p.advance(b.ResourceVersion)
	snap := txn.Commit(c.currentTo())
	if b.Replaced {
		p.listed = true
	}
	c.publish(told, snap)
	return true
}

// known is what the store holds of a part.
func (c *core[T]) known(txn *store.Txn[T], part deltafifo.Part) iter.Seq2[Key, T] {
	if namespace := c.parts[part].namespace; namespace != All {
		return txn.Namespace(namespace)
	}
	return txn.All()
}

// load fills an empty store with the deltas of a list, which are all Added and sorted by key, and appends them to told. It
// makes the trees in one go.
func load[T Object](txn *store.Txn[T], deltas, told []object.Delta[T]) []object.Delta[T] {
	objects := make([]T, len(deltas))
	for i, d := range deltas {
		objects[i] = d.Object
		told = append(told, object.Delta[T]{Type: object.Added, Key: d.Key, Object: d.Object})
	}
	txn.Load(objects)
	return told
}

// applyDelta writes d to the store and appends what its subscribers shall be told. A state that is older than
// the one in the store changes nothing, and neither does the same one again. An object that the store does not hold
// was deleted if its state is older than seen, the version that the store is current to.
func applyDelta[T Object](txn *store.Txn[T], d object.Delta[T], seen string, told []object.Delta[T]) []object.Delta[T] {
	switch d.Type {
	case object.Bookmark:
		return told
	case object.Deleted:
		return applyDelete(txn, d, told)
	}
	// Written first and taken back if it should not have been, which is rare: the key is looked up once.
	known, exists := txn.Set(d.Key, d.Object)
	got := d.Object.GetResourceVersion()
	if !exists {
		if object.OlderResourceVersion(got, seen) {
			txn.Delete(d.Key)
			return told
		}
		return append(told, object.Delta[T]{Type: object.Added, Key: d.Key, Object: d.Object})
	}
	have, recreated := known.GetResourceVersion(), known.GetUID() != d.Object.GetUID()
	if object.OlderResourceVersion(got, have) || (got == have && got != "" && !recreated) {
		txn.Set(object.KeyOf(known), known)
		return told
	}
	if recreated {
		return append(told,
			object.Delta[T]{Type: object.Deleted, Key: d.Key, Object: known, FinalStateUnknown: true},
			object.Delta[T]{Type: object.Added, Key: d.Key, Object: d.Object})
	}
	return append(told, object.Delta[T]{Type: object.Updated, Key: d.Key, Object: d.Object, Old: known})
}

func applyDelete[T Object](txn *store.Txn[T], d object.Delta[T], told []object.Delta[T]) []object.Delta[T] {
	known, exists := txn.Get(d.Key)
	if !exists || object.OlderResourceVersion(d.Object.GetResourceVersion(), known.GetResourceVersion()) {
		return told
	}
	txn.Delete(d.Key)
	return append(told, object.Delta[T]{Type: object.Deleted, Key: d.Key, Object: d.Object, FinalStateUnknown: d.FinalStateUnknown})
}

// currentTo is the version that every part has reached. apply is held.
func (c *core[T]) currentTo() string {
	lowest := c.parts[0].version()
	for _, p := range c.parts[1:] {
		if v := p.version(); v == "" || object.OlderResourceVersion(v, lowest) {
			lowest = v
		}
	}
	return lowest
}

// publish tells the subscriptions. Before the informer has synced nobody is told; when it has, everybody gets
// the snapshot as the initial list. apply is held.
func (c *core[T]) publish(told []object.Delta[T], snap *store.Snapshot[T]) {
	now := time.Now()
	if !c.hasSynced() {
		if c.allListed() {
			close(c.synced)
			for _, s := range c.subs {
				s.begin(snap, now)
			}
			c.tell()
		}
		return
	}
	if len(told) == 0 {
		return
	}
	c.guard.remember(told[len(told)-1].Object, len(told))
	b := &batch[T]{deltas: told, snap: snap, arrived: now}
	for _, s := range c.subs {
		s.push(b)
	}
}

func (c *core[T]) allListed() bool {
	for _, p := range c.parts {
		if !p.listed {
			return false
		}
	}
	return true
}
