package clientgo

import (
	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/guard"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
)

// viewGuard finds writes to the objects that a view has made, as the engine does for those that are held. A nil one
// finds nothing.
type viewGuard struct {
	sampler *guard.Sampler
}

// newViewGuard returns the guard of what is made from an informer's objects; nil if the informer looks for no writes.
func newViewGuard(native *tidings.SharedInformer[tidings.Object], shows *conversion) *viewGuard {
	reports := intake.InternalsOf(native).(intake.Mutations)
	if !reports.GuardsMutations() {
		return nil
	}
	found := func(f guard.Finding) {
		if held, ok := native.Get(f.Key); ok {
			shows.forget(held)
		}
		reports.ReportMutation(f.Key, f.Handler)
	}
	current := func(key object.Key) (object.Object, bool) {
		if held, ok := native.Get(key); ok {
			return shows.find(held)
		}
		return nil, false
	}
	return &viewGuard{guard.New(found, current)}
}

// made says that an object was made, before anybody else can have it. One made earlier under its key may have had its
// address.
func (g *viewGuard) made(obj tidings.Object) {
	if g == nil {
		return
	}
	key := object.KeyOf(obj)
	g.sampler.Changing(key)
	g.sampler.Arriving(key, obj)
	g.sampler.Visit()
}

// watch looks at an object before a delivery to a handler, now and then. The returned function looks at it again.
func (g *viewGuard) watch(delivery uint64, key object.Key, obj tidings.Object, handler string) (check func()) {
	if g == nil || !g.sampler.Sampled(delivery) {
		return func() {}
	}
	compare := g.sampler.Watch(obj, key)
	return func() { compare(handler) }
}
