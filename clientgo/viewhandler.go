package clientgo

import (
	"fmt"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
)

// viewHandler turns changes of what is held into the changes of what a view shows. Only the goroutine of one handler
// uses it.
type viewHandler struct {
	shows   *conversion
	name    string // the informer's
	handler string
	deliver tidings.DeltaFunc[tidings.Object]

	// unshown has an entry for each object that is held in a state that is not shown: the state that the handler was
	// told of last, nil if it does not know the object.
	unshown   map[object.Key]tidings.Object
	delivered uint64
}

// shownTo returns a function that passes on the changes of what the informer shows.
func (inf *informer) shownTo(handler string, deliver tidings.DeltaFunc[tidings.Object]) tidings.DeltaFunc[tidings.Object] {
	if inf.shows == nil {
		return deliver
	}
	h := &viewHandler{shows: inf.shows, name: inf.native.Name(), handler: handler, deliver: deliver,
		unshown: map[object.Key]tidings.Object{}}
	return h.changed
}

// changed passes on what a change of what is held means for the handler, which may be nothing.
func (h *viewHandler) changed(d tidings.Delta[tidings.Object]) {
	before := h.before(d)
	obj, err := h.shows.of(d.Object)
	switch {
	case d.Type == object.Deleted:
		delete(h.unshown, d.Key)
		h.deleted(d, before, obj)
	case err != nil: // the object is not gone: the handler keeps what it knows
		h.unshown[d.Key] = before
		h.report(d.Type, err)
	case obj == nil:
		h.unshown[d.Key] = nil
		h.deleted(d, before, before)
	case before == nil:
		delete(h.unshown, d.Key)
		d.Type, d.Old, d.Object = object.Added, nil, obj
		h.pass(d)
	default:
		delete(h.unshown, d.Key)
		d.Old, d.Object = before, obj
		h.pass(d)
	}
}

// before returns what the handler was told of last; nil if it does not know the object.
func (h *viewHandler) before(d tidings.Delta[tidings.Object]) tidings.Object {
	if known, ok := h.unshown[d.Key]; ok {
		return known
	}
	if d.Type == object.Added {
		return nil
	}
	obj, _ := h.shows.of(d.Old) // it has not failed when it was the new state
	return obj
}

// deleted tells the handler that an object which it knows is gone. Without a last state, that is the one from before.
func (h *viewHandler) deleted(d tidings.Delta[tidings.Object], before, last tidings.Object) {
	if before == nil {
		return
	}
	if last == nil {
		last, d.FinalStateUnknown = before, true
	}
	d.Type, d.Old, d.Object, d.Initial = object.Deleted, before, last, false
	h.pass(d)
}

// pass calls the handler. The guard looks for what it writes to.
func (h *viewHandler) pass(d tidings.Delta[tidings.Object]) {
	h.delivered++
	defer h.shows.guard.watch(h.delivered, d.Key, d.Object, h.handler)()
	h.deliver(d)
}

// report reports an object that cannot be made. A resync brings nothing new.
func (h *viewHandler) report(during object.DeltaType, err error) {
	if during != object.Sync {
		utilruntime.HandleError(fmt.Errorf("%s: handler %s misses the present state of an object: %w", h.name, h.handler, err))
	}
}
