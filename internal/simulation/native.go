package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
)

// native is a view through our own API.
type native[T object.Object] struct {
	handlers[T]
	inf   *tidings.SharedInformer[T]
	color *tidings.Index[T]
	what  scope
}

func newNative[T object.Object](r *run, f *tidings.Factory, s scope) (*native[T], error) {
	inf, err := tidings.Informer[T](f, tidings.Scope{Resource: s.resource, Namespaces: s.namespaces, Labels: s.selector})
	if err != nil {
		return nil, err
	}
	return &native[T]{handlers: handlers[T]{r: r}, inf: inf, color: inf.AddIndex("color", colorsOf[T]), what: s}, nil
}

func (v *native[T]) byColor(color string) (all []object.Object) {
	for o := range v.color.All(color) {
		all = append(all, o)
	}
	return all
}

func (v *native[T]) start(ctx context.Context) error { return v.inf.Start(ctx) }
func (v *native[T]) stop(ctx context.Context) error  { return v.inf.Stop(ctx) }
func (v *native[T]) status() tidings.Status          { return v.inf.Status() }
func (v *native[T]) scope() scope                    { return v.what }

func (v *native[T]) objects() map[object.Key]object.Object {
	all, snap := map[object.Key]object.Object{}, v.inf.Snapshot()
	if err := snap.Check(); err != nil {
		v.r.diverge("the snapshot contradicts itself: %v", err)
	}
	for key, o := range snap.All() {
		all[key] = o
	}
	return all
}

func (v *native[T]) addHandler(plan handlerPlan) {
	v.add(plan, func(h *handler[T]) (func(context.Context) error, error) {
		registration, err := v.inf.AddHandler(tidings.DeltaFunc[T](func(d object.Delta[T]) {
			v.checkHeld(d)
			h.handle(d)
		}), plan.options())
		if err != nil {
			return nil, err
		}
		return registration.Remove, nil
	})
}

// checkHeld checks the store when a handler gets a delta: it must have the object of the delta, or a later
// state.
func (v *native[T]) checkHeld(d object.Delta[T]) {
	held, ok := v.inf.Get(d.Key)
	if ok && d.Type != object.Deleted && object.OlderResourceVersion(held.GetResourceVersion(), d.Object.GetResourceVersion()) && !v.r.restored.Load() {
		v.r.diverge("a handler is told of %v at %s while the store has %s", d.Key, d.Object.GetResourceVersion(), held.GetResourceVersion())
	}
}

// move changes the namespaces of a view that is limited to some.
func (v *native[T]) move(ctx context.Context, random *rand.Rand) {
	if len(v.what.namespaces) == 0 {
		return
	}
	choices := [][]string{{"a"}, {"a", "b"}, {"b", "c"}, {"a", "b", "c"}}
	v.what.namespaces = choices[random.IntN(len(choices))]
	if err := v.inf.SetNamespaces(ctx, v.what.namespaces...); err != nil {
		v.r.diverge("cannot change namespaces: %v", err)
	}
}

// informerOptions are the options of every factory of a run.
func (r *run) informerOptions(purpose string) tidings.Options {
	random := newRandom(r.config.Seed, purpose)
	options := tidings.Options{
		Logger: discard(), OnError: r.onError, Seed: random.Uint64() | 1,
		NoWatchList: random.IntN(3) == 0, PageSize: 1 + random.Int64N(20),
	}
	if r.config.Mode == Folded || r.config.Mode == Warm && random.IntN(2) == 0 {
		options.MemoryBudget = 1 + random.Int64N(20_000)
	}
	if r.config.Mode == Warm {
		options.Files.Dir, options.Files.Every = r.dir, time.Duration(1+random.IntN(60))*time.Second
	}
	return options
}

func (r *run) onError(err error) {
	reported, ok := errors.AsType[*reflector.Error](err)
	if ok && reported.Reason == reflector.Rewritten {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reported++
	}
}

// openNative opens the views for objects of these types.
func openNative[P, C object.Object](r *run) ([]view, error) {
	f, err := tidings.NewFactory(r.clientConfig(), r.informerOptions("views"))
	if err != nil {
		return nil, err
	}
	all, err := newNative[P](r, f, scope{resource: podResource})
	some, err2 := newNative[P](r, f, scope{resource: podResource, namespaces: []string{"a", "b"}, selector: "color=red"})
	maps, err3 := newNative[C](r, f, scope{resource: configResource})
	return []view{all, some, maps}, errors.Join(err, err2, err3)
}

func openTyped(r *run) ([]view, error) { return openNative[*corev1.Pod, *corev1.ConfigMap](r) }

func openUnstructured(r *run) ([]view, error) {
	return openNative[*unstructured.Unstructured, *metav1.PartialObjectMetadata](r)
}
