package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
)

// Readable is an informer of pods with an index by owner, for readers. Its methods must not be called concurrently.
type Readable interface {
	// Get reads a field of the named pod, and reports whether the pod exists.
	Get(namespace, name string) bool
	// List visits all pods, and Owned those of an owner; both read a field of each. They return the number of pods.
	List() int
	Owned(owner string) int
	Stop() error
}

// ReadableConfig configures a Readable.
type ReadableConfig struct {
	Rest *rest.Config
	// KeepOpen makes Tidings keep all objects open.
	KeepOpen bool
	// Resync is how often the handler gets all objects again; 0 means never.
	Resync time.Duration
}

// OwnerOf returns the owner of a pod, for Owned.
func OwnerOf(pod metav1.Object) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return string(owner.UID)
	}
	return ""
}

const byOwner = "owner"

// StartReadable starts an informer with a handler that reads a field, and returns once that has all objects.
func StartReadable(ctx context.Context, name Name, c ReadableConfig) (Readable, error) {
	if name == Tidings {
		return startReadableTidings(ctx, c)
	}
	return startReadableClientGo(ctx, c)
}

type readableTidings struct {
	factory *tidings.Factory
	lister  tidings.Lister[*corev1.Pod]
	owned   *tidings.Index[*corev1.Pod]
}

func startReadableTidings(ctx context.Context, c ReadableConfig) (Readable, error) {
	factory, err := tidings.NewFactory(c.Rest, tidings.Options{KeepOpen: c.KeepOpen})
	if err != nil {
		return nil, fmt.Errorf("start tidings: %w", err)
	}
	pods, err := tidings.Informer[*corev1.Pod](factory, tidings.Scope{})
	if err != nil {
		return nil, fmt.Errorf("start tidings: %w", err)
	}
	r := &readableTidings{factory: factory, lister: pods.Lister()}
	r.owned = pods.AddIndex(byOwner, func(pod *corev1.Pod) []string { return []string{OwnerOf(pod)} })
	seen := 0
	see := func(pod *corev1.Pod) {
		if named(pod) {
			seen++
		}
	}
	reg, err := pods.AddHandler(tidings.HandlerFuncs[*corev1.Pod]{
		Add: func(pod *corev1.Pod, _ bool) { see(pod) }, Update: func(_, pod *corev1.Pod) { see(pod) },
	}, tidings.HandlerOptions{Resync: c.Resync})
	if err != nil {
		return nil, fmt.Errorf("start tidings: %w", err)
	}
	if err := factory.Start(ctx); err != nil {
		return nil, fmt.Errorf("start tidings: %w", err)
	}
	return r, reg.WaitForSync(ctx)
}

func (r *readableTidings) Get(namespace, name string) bool {
	pod, ok := r.lister.Namespace(namespace).Get(name)
	return ok && named(pod)
}

func (r *readableTidings) List() (found int) {
	for pod := range r.lister.All() {
		if named(pod) {
			found++
		}
	}
	return found
}

func (r *readableTidings) Owned(owner string) (found int) {
	for pod := range r.owned.All(owner) {
		if named(pod) {
			found++
		}
	}
	return found
}

func (r *readableTidings) Stop() error { return r.factory.Shutdown(context.Background()) }

type readableClientGo struct {
	indexer cache.Indexer
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func startReadableClientGo(ctx context.Context, c ReadableConfig) (Readable, error) {
	config := rest.CopyConfig(c.Rest)
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("start client-go: %w", err)
	}
	informer := informers.NewSharedInformerFactory(client, c.Resync).Core().V1().Pods().Informer()
	if err := informer.AddIndexers(cache.Indexers{byOwner: func(obj any) ([]string, error) {
		return []string{OwnerOf(obj.(*corev1.Pod))}, nil
	}}); err != nil {
		return nil, fmt.Errorf("start client-go: %w", err)
	}
	seen := 0
	see := func(obj any) {
		if named(obj.(*corev1.Pod)) {
			seen++
		}
	}
	reg, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) },
	})
	if err != nil {
		return nil, fmt.Errorf("start client-go: %w", err)
	}
	r := &readableClientGo{indexer: informer.GetIndexer()}
	run, cancel := context.WithCancel(ctx)
	r.cancel = cancel
	r.running.Go(func() { informer.RunWithContext(run) })
	return r, waitDone(ctx, reg.HasSyncedChecker())
}

func (r *readableClientGo) Get(namespace, name string) bool {
	obj, ok, err := r.indexer.GetByKey(namespace + "/" + name)
	return err == nil && ok && named(obj.(*corev1.Pod))
}

func (r *readableClientGo) List() int { return countNamed(r.indexer.List()) }

func (r *readableClientGo) Owned(owner string) int {
	pods, err := r.indexer.ByIndex(byOwner, owner)
	if err != nil {
		return 0
	}
	return countNamed(pods)
}

func countNamed(pods []any) (found int) {
	for _, obj := range pods {
		if named(obj.(*corev1.Pod)) {
			found++
		}
	}
	return found
}

func (r *readableClientGo) Stop() error {
	r.cancel()
	r.running.Wait()
	return nil
}
