package clientgo_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/klog/v2"

	"github.com/tidings/tidings/clientgo"
)

func init() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	utilruntime.ErrorHandlers = nil // one of them sleeps until its time of creation, which is years ahead of a bubble's clock
}

// engine is one implementation of client-go's informers. The contract tests run against both, which
// shows that they state what client-go does, and that ours does it too.
type engine struct {
	name        string
	informer    func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer
	withOptions func(cache.ListerWatcher, runtime.Object, cache.SharedIndexInformerOptions) cache.SharedIndexInformer
	controller  func(cache.InformerOptions) (cache.Store, cache.Controller)
	indexer     func(cache.ListerWatcher, runtime.Object, time.Duration, cache.ResourceEventHandler, cache.Indexers) (cache.Indexer, cache.Controller)
	factory     func(kubernetes.Interface, time.Duration, factoryOptions) informers.SharedInformerFactory
	reflector   func(cache.ListerWatcher, any, cache.ReflectorStore, cache.ReflectorOptions) listAndWatcher
	queued      func(*cache.Config) cache.Controller
}

// listAndWatcher is implemented by both reflectors.
type listAndWatcher interface {
	Run(stopCh <-chan struct{})
	RunWithContext(ctx context.Context)
	ListAndWatch(stopCh <-chan struct{}) error
	ListAndWatchWithContext(ctx context.Context) error
	LastSyncResourceVersion() string
	Name() string
	TypeDescription() string
}

// factoryOptions are the options that both engines take.
type factoryOptions struct {
	namespace string
	tweak     func(*metav1.ListOptions)
	transform cache.TransformFunc
	resync    map[metav1.Object]time.Duration
	name      *cache.InformerName
}

var upstream = engine{
	name: "client-go", informer: cache.NewSharedIndexInformer, withOptions: cache.NewSharedIndexInformerWithOptions, controller: cache.NewInformerWithOptions,
	indexer: cache.NewIndexerInformer, //lint:ignore SA1019 deprecated functions must work too
	factory: func(c kubernetes.Interface, resync time.Duration, o factoryOptions) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(c, resync, informers.WithNamespace(o.namespace), informers.WithTweakListOptions(o.tweak),
			informers.WithTransform(o.transform), informers.WithCustomResyncConfig(o.resync), informers.WithInformerName(o.name))
	},
	reflector: func(lw cache.ListerWatcher, expected any, store cache.ReflectorStore, o cache.ReflectorOptions) listAndWatcher {
		return cache.NewReflectorWithOptions(lw, expected, store, o)
	},
	queued: cache.New,
}

var ours = engine{
	name: "tidings", informer: clientgo.NewSharedIndexInformer, withOptions: clientgo.NewSharedIndexInformerWithOptions,
	controller: clientgo.NewInformerWithOptions, indexer: clientgo.NewIndexerInformer,
	factory: func(c kubernetes.Interface, resync time.Duration, o factoryOptions) informers.SharedInformerFactory {
		return clientgo.NewSharedInformerFactoryFromClient(c, resync, ourOptions(o)...)
	},
	reflector: func(lw cache.ListerWatcher, expected any, store cache.ReflectorStore, o cache.ReflectorOptions) listAndWatcher {
		return clientgo.NewReflectorWithOptions(lw, expected, store, o)
	},
	queued: clientgo.NewController,
}

func ourOptions(o factoryOptions) []clientgo.Option {
	return []clientgo.Option{clientgo.WithNamespace(o.namespace), clientgo.WithTweakListOptions(o.tweak),
		clientgo.WithTransform(o.transform), clientgo.WithCustomResyncConfig(o.resync), clientgo.WithInformerName(o.name)}
}

// bothEngines runs a contract test against both engines, in a synctest bubble.
func bothEngines(t *testing.T, test func(t *testing.T, e engine)) {
	for _, e := range []engine{upstream, ours} {
		t.Run(e.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, e) })
		})
	}
}

// newPods returns a fake source of pods, each given as "namespace/name" or "name".
func newPods(t *testing.T, keys ...string) *fcache.FakeControllerSource {
	src := fcache.NewFakeControllerSource()
	t.Cleanup(func() { src.Broadcaster.Shutdown() })
	for _, key := range keys {
		src.Add(pod(key))
	}
	return src
}

func pod(key string) *corev1.Pod {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		panic(err)
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// labeled returns a pod with the label v.
func labeled(key, v string) *corev1.Pod {
	p := pod(key)
	p.Labels = map[string]string{"v": v}
	return p
}

// run runs an informer until the returned function is called, which waits for Run to return. The
// end of the test calls it as well.
func run(t *testing.T, inf interface{ RunWithContext(context.Context) }) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		inf.RunWithContext(ctx)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// requestRecorder is a handler that records its notifications.
type requestRecorder struct {
	mu    sync.Mutex
	notes []string
	last  any           // the argument of the last delete
	block chan struct{} // if set, every call waits for it
}

func (r *requestRecorder) note(format string, args ...any) {
	if r.block != nil {
		<-r.block
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func describe(obj any) string {
	p := obj.(*corev1.Pod)
	if v := p.Labels["v"]; v != "" {
		return p.Namespace + "/" + p.Name + "=" + v
	}
	return p.Namespace + "/" + p.Name
}

func (r *requestRecorder) OnAdd(obj any, initial bool) {
	if initial {
		r.note("initial %s", describe(obj))
		return
	}
	r.note("add %s", describe(obj))
}

func (r *requestRecorder) OnUpdate(old, new any) {
	r.note("update %s to %s", describe(old), describe(new))
}

func (r *requestRecorder) OnDelete(obj any) {
	r.mu.Lock()
	r.last = obj
	r.mu.Unlock()
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		r.note("tombstone %s of %s", gone.Key, describe(gone.Obj))
		return
	}
	r.note("delete %s", describe(obj))
}

// take returns what was recorded since the last take, once everything has settled.
func (r *requestRecorder) take() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	notes := r.notes
	r.notes = nil
	return notes
}

// expect calls take, and compares in the given order.
func (r *requestRecorder) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	if got := r.take(); !slices.Equal(got, want) {
		t.Errorf("%s: handler was told %q, want %q", when, got, want)
	}
}

// expectAnyOrder calls take, and ignores the order, which is not guaranteed between objects.
func (r *requestRecorder) expectAnyOrder(t *testing.T, when string, want ...string) {
	t.Helper()
	got := r.take()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: handler was told %q, want %q", when, got, want)
	}
}

func mustAdd(t *testing.T, inf cache.SharedInformer, h cache.ResourceEventHandler) cache.ResourceEventHandlerRegistration {
	t.Helper()
	r, err := inf.AddEventHandler(h)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// keysOf returns the sorted keys of objects.
func keysOf(t *testing.T, objects []any) []string {
	t.Helper()
	var keys []string
	for _, obj := range objects {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
