package replica

import (
	"context"
	"sync/atomic"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
)

// View is how one request reads a collection. It implements protocol.Storage.
type View struct {
	*Collection
	topic *topic // limits the changes; nil does not
	epoch int    // of the collection when the request began
	fresh *Freshness
	ended <-chan struct{}
}

// View returns a view for one request. ended is closed when requests are to end.
func (c *Collection) View(fresh *Freshness, ended <-chan struct{}) View {
	c.mu.Lock()
	defer c.mu.Unlock()
	return View{c, nil, c.epoch, fresh, ended}
}

// Epoch tells histories apart: versions of two of them must not be compared.
func (v View) Epoch() int { return v.epoch }

// Version implements protocol.Storage.
func (v View) Version() uint64 {
	version, _ := v.Now()
	return version
}

// MostRecent implements protocol.Storage.
func (v View) MostRecent(ctx context.Context) (uint64, error) { return v.fresh.mostRecent(ctx) }

// Reach implements protocol.Storage.
func (v View) Reach(ctx context.Context, version uint64) error {
	if v.isOfOldHistory(version) {
		return protocol.Expired()
	}
	if _, ok := v.fresh.reach(ctx, version, catchUpPatience); ok {
		return nil
	}
	// To refuse a version that the API server has would be wrong, however long it takes the collection to hear of it.
	var exists atomic.Bool
	waiting, looked := context.WithCancel(ctx)
	defer looked()
	v.fresh.expect(version, func() { exists.Store(true) }, looked)
	err := protocol.Reach(waiting, version, v.Now, v.ended)
	if err == nil || !exists.Load() || ctx.Err() != nil {
		return err
	}
	<-waiting.Done()
	if now, _ := v.Now(); now >= version {
		return nil
	}
	return ErrForward
}

// isOfOldHistory reports whether a version can only have come from before the server was restored: the server has not
// assigned it again, as far as is known here. To wait for it would end in a state that the client does not mean.
func (v View) isOfOldHistory(version uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return version > v.current() && version <= v.rewound
}

// Oldest implements protocol.Storage.
func (v View) Oldest() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.journal.floor
}

// Get implements protocol.Storage.
func (v View) Get(key object.Key) (object.Object, error) {
	v.mu.Lock()
	snapshot, gone := v.snapshot, v.version == 0 || v.epoch != v.Collection.epoch
	v.mu.Unlock()
	if gone {
		return nil, protocol.ErrGone
	}
	held, ok := snapshot.Held(key)
	if !ok {
		return nil, nil
	}
	return held.ObjectAlone(), nil
}

// List implements protocol.Storage. Of another epoch, the same version names another state.
func (v View) List(version uint64) (protocol.List, error) {
	v.mu.Lock()
	switch {
	case v.version == 0:
		v.mu.Unlock()
		return nil, protocol.ErrGone
	case version < v.journal.floor || version > v.current() || v.epoch != v.Collection.epoch:
		v.mu.Unlock()
		return nil, protocol.ErrCompacted
	}
	snapshot, undo := v.journal.at(version, v.snapshot)
	head := v.head
	v.mu.Unlock()
	return newList(snapshot, head, undo), nil
}

// After implements protocol.Storage.
func (v View) After(version uint64) protocol.Tail {
	v.mu.Lock()
	defer v.mu.Unlock()
	tail := protocol.Tail{Version: v.current(), Changed: v.changed, Closed: v.version == 0}
	switch {
	case tail.Closed:
		return tail
	// A version of another epoch names a state of another history, though it may have been assigned again in this one.
	case version < v.reachesBack(), v.epoch != v.Collection.epoch, version > v.current() && version <= v.rewound:
		tail.Lost = true
		return tail
	}
	if v.topic != nil {
		tail.Changed = v.topic.changed
	}
	later := v.journal.after(version)
	for i := range later {
		e := &later[i]
		if v.topic != nil && !e.isOf(v.topic.name) {
			continue
		}
		if len(tail.Changes) == tailChanges {
			tail.Version, tail.Changed = tail.Changes[tailChanges-1].Version, alreadyChanged
			break
		}
		tail.Changes = append(tail.Changes, e.Change)
	}
	return tail
}

// reachesBack returns the version from which nothing that the view shows is missing. The lock is held.
func (v View) reachesBack() uint64 {
	if v.topic != nil {
		return v.topic.dropped
	}
	return v.journal.floor
}

// tailChanges is the maximum number of changes that After returns, so that a watcher far behind holds little.
const tailChanges = 256

// alreadyChanged is closed.
var alreadyChanged = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// ChangesSince returns how many changes of the journal are later than a version.
func (c *Collection) ChangesSince(version uint64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.journal.after(version))
}
