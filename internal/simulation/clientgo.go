//go:build !simulation_core

package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/object"
)

// The tag simulation_core excludes this mode from mutant builds: package clientgo takes long to compile.
func init() {
	Modes = append(Modes, ClientGo)
	modes[ClientGo] = modeSetup{openClientGo, newTypedProcess}
}

// upstream is a view through client-go's API on our engine. Its handlers' queues are unbounded, like client-go's.
type upstream struct {
	handlers[object.Object]
	what    scope
	factory informers.SharedInformerFactory
	inf     cache.SharedIndexInformer
	native  *tidings.Factory // the factory behind it
	cancel  context.CancelFunc
}

// newUpstream returns a view with its own factory. The scope has one namespace at most.
func newUpstream(r *run, s scope) (*upstream, error) {
	namespace := tidings.All
	if len(s.namespaces) > 0 {
		namespace = s.namespaces[0]
	}
	factory := clientgo.NewSharedInformerFactory(r.clientConfig(), time.Minute, clientgo.WithNamespace(namespace),
		clientgo.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = s.selector }),
		clientgo.WithOptions(r.informerOptions("views")))
	native, ok := clientgo.Native(factory)
	if !ok {
		return nil, errors.New("the factory is not ours")
	}
	inf, err := factory.ForResource(s.resource)
	if err != nil {
		return nil, err
	}
	v := &upstream{handlers: handlers[object.Object]{r: r}, what: s, factory: factory, inf: inf.Informer(), native: native}
	return v, v.inf.AddIndexers(cache.Indexers{colorIndex: func(o any) ([]string, error) { return colorsOf(o.(object.Object)), nil }})
}

const colorIndex = "color"

func (v *upstream) byColor(color string) (all []object.Object) {
	found, err := v.inf.GetIndexer().ByIndex(colorIndex, color)
	if err != nil {
		v.r.diverge("%v", err)
	}
	for _, o := range found {
		all = append(all, o.(object.Object))
	}
	return all
}

func (v *upstream) start(ctx context.Context) error {
	ctx, v.cancel = context.WithCancel(ctx)
	v.factory.StartWithContext(ctx)
	return nil
}

func (v *upstream) stop(context.Context) error {
	v.cancel()
	v.factory.Shutdown()
	return nil
}

// status returns the status of the native informer, which the factory no longer reports once it has stopped.
func (v *upstream) status() (s tidings.Status) {
	for _, s = range v.native.Status() {
	}
	return s
}

func (v *upstream) scope() scope                     { return v.what }
func (v *upstream) move(context.Context, *rand.Rand) {}

func (v *upstream) objects() map[object.Key]object.Object {
	all := map[object.Key]object.Object{}
	for _, item := range v.inf.GetStore().List() {
		o, ok := item.(object.Object)
		if !ok {
			v.r.diverge("the store holds a %T", item)
			continue
		}
		all[object.KeyOf(o)] = o
	}
	return all
}

func (v *upstream) addHandler(plan handlerPlan) {
	plan.policy, plan.delay = tidings.Unbounded, min(plan.delay, maxDelay)
	v.add(plan, func(h *handler[object.Object]) (func(context.Context) error, error) {
		registration, err := v.inf.AddEventHandlerWithResyncPeriod(upstreamHandler{h, v.r}, plan.resync)
		if err != nil {
			return nil, err
		}
		return func(context.Context) error {
			if err := v.inf.RemoveEventHandler(registration); err != nil {
				return err
			}
			<-registration.(interface{ ShutdownChan() <-chan struct{} }).ShutdownChan()
			return nil
		}, nil
	})
}

// upstreamHandler converts client-go's calls to deltas.
type upstreamHandler struct {
	*handler[object.Object]
	r *run
}

func (u upstreamHandler) OnAdd(obj any, initial bool) {
	o := obj.(object.Object)
	u.handle(object.Delta[object.Object]{Type: object.Added, Key: object.KeyOf(o), Object: o, Initial: initial})
}

func (u upstreamHandler) OnUpdate(before, after any) {
	old, o := before.(object.Object), after.(object.Object)
	d := object.Delta[object.Object]{Type: object.Updated, Key: object.KeyOf(o), Object: o, Old: old}
	switch {
	case old == o:
		d.Type = object.Sync
	case old.GetResourceVersion() == o.GetResourceVersion():
		d.Type = object.Replaced
	}
	u.handle(d)
}

func (u upstreamHandler) OnDelete(obj any) {
	d := object.Delta[object.Object]{Type: object.Deleted}
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj, d.FinalStateUnknown = gone.Obj, true
	}
	o, ok := obj.(object.Object)
	if !ok {
		u.r.diverge("deleted: a %T", obj)
		return
	}
	d.Key, d.Object = object.KeyOf(o), o
	u.handle(d)
}

func openClientGo(r *run) ([]view, error) {
	var views []view
	var errs []error
	for _, s := range []scope{
		{resource: podResource},
		{resource: podResource, namespaces: []string{"a"}, selector: "color=red"},
		{resource: configResource},
	} {
		v, err := newUpstream(r, s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%v: %w", s, err))
			continue
		}
		views = append(views, v)
	}
	return views, errors.Join(errs...)
}
