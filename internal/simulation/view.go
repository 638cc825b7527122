package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/recorder"
)

// view is an informer of any kind with its handlers. Its methods are called from the run's
// goroutine, except for status, which the monitor calls.
type view interface {
	start(context.Context) error
	stop(context.Context) error
	status() tidings.Status
	scope() scope
	// objects returns the content of the store.
	objects() map[object.Key]object.Object
	addHandler(handlerPlan)
	removeHandler(*rand.Rand)
	// move changes the scope, if the informer supports that.
	move(context.Context, *rand.Rand)
	allowRewrites()
	replays() []replay
	// byColor returns the objects under a color in the index.
	byColor(color string) []object.Object
}

// replay is the state that a handler has received so far.
type replay struct {
	name    string
	state   map[object.Key]object.Object
	err     error // broken promises
	events  int
	rewinds int
}

// maxHandlers is the maximum number of handlers of a view.
const maxHandlers = 5

// handlerPlan is the behavior of a handler.
type handlerPlan struct {
	name   string
	delay  time.Duration // of each call
	panics int           // every n-th call panics; 0 means none
	policy tidings.Policy
	resync time.Duration
}

// maxDelay is the maximum duration of a call if coalescing cannot compensate for it.
const maxDelay = 50 * time.Millisecond

// buffer is the buffer size of handlers that block.
const buffer = 10

func (r *run) newHandlerPlan() handlerPlan {
	p := handlerPlan{name: fmt.Sprint("handler-", r.random.Uint32()), policy: tidings.Policy(r.random.IntN(3))}
	if r.random.IntN(3) == 0 {
		p.delay = time.Duration(r.random.Int64N(int64(maxDelay)))
	}
	if r.random.IntN(4) == 0 {
		p.panics = 2 + r.random.IntN(10)
	}
	if r.random.IntN(4) == 0 {
		p.resync = time.Duration(1+r.random.IntN(60)) * time.Second
	}
	if p.policy == tidings.Coalesce && r.random.IntN(3) == 0 {
		p.delay = time.Duration(r.random.IntN(2000)) * time.Millisecond
	}
	return p
}

func (p handlerPlan) options() tidings.HandlerOptions {
	return tidings.HandlerOptions{Name: p.name, Policy: p.policy, Buffer: buffer, Resync: p.resync}
}

// handler records its notifications, and delays and panics as planned.
type handler[T object.Object] struct {
	recorder.Recorder[T]
	plan   handlerPlan
	calls  int
	remove func(context.Context) error
}

func (h *handler[T]) handle(d object.Delta[T]) {
	h.Delta(d)
	time.Sleep(h.plan.delay)
	if h.calls++; h.plan.panics > 0 && h.calls%h.plan.panics == 0 {
		panic("a planned panic")
	}
}

func (h *handler[T]) replay() replay {
	return replay{name: h.plan.name, state: generic(h.State()), err: h.Err(), events: h.Len(), rewinds: h.Rewinds()}
}

func generic[T object.Object](objects map[object.Key]T) map[object.Key]object.Object {
	all := make(map[object.Key]object.Object, len(objects))
	for key, o := range objects {
		all[key] = o
	}
	return all
}

// colorsOf is the index function of each view.
func colorsOf[T object.Object](o T) []string {
	if color := o.GetLabels()[colorLabel]; color != "" {
		return []string{color}
	}
	return nil
}

// handlers are a view's handlers, and the results of removed ones.
type handlers[T object.Object] struct {
	r        *run
	present  []*handler[T]
	restored bool
}

// add adds a handler by calling with, which returns a function to remove it.
func (hs *handlers[T]) add(plan handlerPlan, with func(*handler[T]) (func(context.Context) error, error)) {
	if len(hs.present) >= maxHandlers {
		return
	}
	h := &handler[T]{plan: plan}
	if hs.restored {
		h.AllowRewrites()
	}
	var err error
	if h.remove, err = with(h); err != nil {
		hs.r.diverge("cannot add a handler: %v", err)
		return
	}
	hs.present = append(hs.present, h)
}

func (hs *handlers[T]) removeHandler(random *rand.Rand) {
	if len(hs.present) < 2 {
		return
	}
	i := random.IntN(len(hs.present))
	h := hs.present[i]
	hs.present = slices.Delete(hs.present, i, i+1)
	if err := h.remove(context.Background()); err != nil {
		hs.r.diverge("cannot remove %s: %v", h.plan.name, err)
	}
	before := h.Len()
	hs.r.checkReplay(h.replay())
	time.Sleep(time.Second)
	if h.Len() != before {
		hs.r.diverge("%s was called after it was removed", h.plan.name)
	}
}

func (hs *handlers[T]) allowRewrites() {
	hs.restored = true
	for _, h := range hs.present {
		h.AllowRewrites()
	}
}

func (hs *handlers[T]) replays() (all []replay) {
	for _, h := range hs.present {
		all = append(all, h.replay())
	}
	return all
}
