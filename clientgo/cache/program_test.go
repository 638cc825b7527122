// Package cache_test has programs as written against client-go, with only the import paths changed.
package cache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	appslisters "k8s.io/client-go/listers/apps/v1"
	metadatafake "k8s.io/client-go/metadata/fake"
	fcache "k8s.io/client-go/tools/cache/testing"

	"github.com/tidings/tidings/clientgo/cache"
	"github.com/tidings/tidings/clientgo/dynamicinformer"
	"github.com/tidings/tidings/clientgo/informers"
	"github.com/tidings/tidings/clientgo/metadatainformer"
	"github.com/tidings/tidings/clientgo/workqueue"
	"github.com/tidings/tidings/tidingstest"
)

func init() {
	utilruntime.ErrorHandlers = nil // one of them sleeps until its time of creation, which is years ahead of a bubble's clock
}

// controller is a typical controller: a lister, a function that reports whether it has synced, and a queue of keys.
type controller struct {
	deployments appslisters.DeploymentLister
	synced      cache.InformerSynced
	queue       workqueue.TypedRateLimitingInterface[cache.ObjectName]

	mu   sync.Mutex
	seen []string
}

func newController(deployments appsinformers.DeploymentInformer) (*controller, error) {
	c := &controller{
		deployments: deployments.Lister(), synced: deployments.Informer().HasSynced,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](time.Second, time.Minute),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "deployments"}),
	}
	_, err := deployments.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		UpdateFunc: func(_, new interface{}) { c.enqueue(new) },
		DeleteFunc: func(obj interface{}) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			c.enqueue(obj)
		},
	})
	return c, err
}

func (c *controller) enqueue(obj interface{}) {
	if name, err := cache.ObjectToName(obj); err == nil {
		c.queue.Add(name)
	}
}

func (c *controller) run(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), c.synced) {
		return errors.New("the caches have not synced")
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	defer c.queue.ShutDown()
	for range 2 {
		workers.Go(c.work)
	}
	<-ctx.Done()
	return nil
}

func (c *controller) work() {
	for {
		name, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		if err := c.sync(name); err != nil && c.queue.NumRequeues(name) < 2 {
			c.queue.AddRateLimited(name)
		} else {
			c.queue.Forget(name)
		}
		c.queue.Done(name)
	}
}

func (c *controller) sync(name cache.ObjectName) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.deployments.Deployments(name.Namespace).Get(name.Name); err != nil {
		c.seen = append(c.seen, name.String()+" is gone")
		return nil
	}
	c.seen = append(c.seen, name.String())
	if name.Name == "failing" {
		return errors.New("try again")
	}
	return nil
}

func (c *controller) expect(t *testing.T, want ...string) {
	t.Helper()
	time.Sleep(time.Second) // in the bubble: WaitForCacheSync polls ten times a second
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.seen)
	if !slices.Equal(c.seen, want) {
		t.Errorf("reconciled %q, want %q", c.seen, want)
	}
	c.seen = nil
}

func deployment(namespace, name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// A controller with a lister and a work queue, over a fake clientset and over a server.
func TestControllerProgram(t *testing.T) {
	for name, newClient := range map[string]func(t *testing.T) kubernetes.Interface{
		"fake": func(*testing.T) kubernetes.Interface { return fake.NewClientset() },
		"server": func(t *testing.T) kubernetes.Interface {
			return kubernetes.NewForConfigOrDie(tidingstest.NewServer(t, tidingstest.ServerOptions{}).Config())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkController(t, newClient(t)) })
		})
	}
}

func checkController(t *testing.T, client kubernetes.Interface) {
	ctx, cancel := context.WithCancel(context.Background())
	deployments := client.AppsV1().Deployments("shop")
	if _, err := deployments.Create(ctx, deployment("shop", "web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, time.Hour, informers.WithNamespace("shop"))
	c, err := newController(factory.Apps().V1().Deployments())
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	done := make(chan error)
	go func() { done <- c.run(ctx) }()
	c.expect(t, "shop/web")
	if _, err := deployments.Create(ctx, deployment("shop", "failing"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Second) // the retries
	c.expect(t, "shop/failing", "shop/failing", "shop/failing")
	if err := deployments.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.expect(t, "shop/web is gone")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	factory.Shutdown()
}

// A controller's unit test fills the store by hand and runs nothing.
func TestUnitTestProgram(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	c, err := newController(factory.Apps().V1().Deployments())
	if err != nil {
		t.Fatal(err)
	}
	c.synced = func() bool { return true }
	if err := factory.Apps().V1().Deployments().Informer().GetIndexer().Add(deployment("shop", "web")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"web", "nothing"} {
		if err := c.sync(cache.NewObjectName("shop", name)); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"shop/web", "shop/nothing is gone"}; !slices.Equal(c.seen, want) {
		t.Errorf("reconciled %q, want %q", c.seen, want)
	}
}

// The small constructors: a store with a controller, an indexer, a reflector with a queue, a watch error handler.
func TestSmallPrograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := fcache.NewFakeControllerSource()
		defer source.Broadcaster.Shutdown()
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		source.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{NodeName: "node-7"}})

		var added []string
		store, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: source, ObjectType: &corev1.Pod{},
			Handler: cache.ResourceEventHandlerFuncs{AddFunc: func(obj interface{}) { added = append(added, obj.(*corev1.Pod).Name) }}})
		running.Go(func() { informer.Run(ctx.Done()) })

		shared := cache.NewSharedIndexInformer(source, &corev1.Pod{}, 0, cache.Indexers{
			"node": func(obj interface{}) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil },
		})
		if err := shared.SetWatchErrorHandler(func(r *cache.Reflector, err error) { t.Error(r.Name(), err) }); err != nil {
			t.Error(err)
		}
		running.Go(func() { shared.Run(ctx.Done()) })

		queue := cache.NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{KeyFunction: cache.MetaNamespaceKeyFunc})
		defer queue.Close()
		reflector := cache.NewReflector(source, &corev1.Pod{}, queue, 0)
		running.Go(func() { reflector.Run(ctx.Done()) })

		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced, shared.HasSynced) {
			t.Fatal("not synced")
		}
		synctest.Wait()
		if !slices.Equal(added, []string{"web"}) || !slices.Equal(store.ListKeys(), []string{"shop/web"}) {
			t.Errorf("added %v, stored %v", added, store.ListKeys())
		}
		if pods, err := shared.GetIndexer().ByIndex("node", "node-7"); err != nil || len(pods) != 1 {
			t.Errorf("on node-7: %v, %v", pods, err)
		}
		_, err := queue.Pop(func(obj interface{}, _ bool) error {
			if newest := obj.(cache.Deltas).Newest(); newest.Object.(*corev1.Pod).Name != "web" {
				t.Errorf("popped %v", newest)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A ListWatch over a client's REST interface.
func TestRESTProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
		server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "web"}})
		client := kubernetes.NewForConfigOrDie(server.Config())
		lw := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", "shop", fields.Everything())
		pods := cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
		var told []string
		handle, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { told = append(told, "add "+keyOf(t, obj)) },
			DeleteFunc: func(obj any) { told = append(told, "delete "+keyOf(t, obj)) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { pods.RunWithContext(ctx) })
		defer running.Wait()
		defer cancel()
		if !cache.WaitFor(ctx, "pods", pods.HasSyncedChecker(), handle.HasSyncedChecker()) {
			t.Fatal("not synced")
		}
		server.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
		synctest.Wait()
		if want := []string{"add shop/web", "delete shop/web"}; !slices.Equal(told, want) {
			t.Errorf("the handler was told %q, want %q", told, want)
		}
	})
}

func keyOf(t *testing.T, obj any) string {
	t.Helper()
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		t.Error(err)
	}
	return key
}

//lint:file-ignore SA1019 generated code has what is deprecated as well

// generated is what informer-gen generates for a custom resource, with a ConfigMap in its place,
// and with the import of package cache changed.
type generated struct {
	client    kubernetes.Interface
	informers map[string]cache.SharedIndexInformer
}

func (g *generated) InformerFor(obj runtime.Object, newFunc func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer) cache.SharedIndexInformer {
	name := fmt.Sprintf("%T", obj)
	if g.informers[name] == nil {
		g.informers[name] = newFunc(g.client, time.Hour)
	}
	return g.informers[name]
}

func (g *generated) widgets() cache.SharedIndexInformer {
	return g.InformerFor(&corev1.ConfigMap{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformerWithOptions(
			cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
				ListFunc: func(options metav1.ListOptions) (runtime.Object, error) {
					return client.CoreV1().ConfigMaps("shop").List(context.Background(), options)
				},
				WatchFunc: func(options metav1.ListOptions) (watch.Interface, error) {
					return client.CoreV1().ConfigMaps("shop").Watch(context.Background(), options)
				},
				ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
					return client.CoreV1().ConfigMaps("shop").List(ctx, options)
				},
				WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
					return client.CoreV1().ConfigMaps("shop").Watch(ctx, options)
				},
			}, client),
			&corev1.ConfigMap{},
			cache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}},
		)
	})
}

func TestGeneratedProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "one"}})
		g := &generated{client: client, informers: map[string]cache.SharedIndexInformer{}}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		widgets := g.widgets()
		running.Go(func() { widgets.RunWithContext(ctx) })
		defer running.Wait()
		defer cancel()
		cache.WaitForCacheSync(ctx.Done(), widgets.HasSynced)
		if all, err := cache.NewGenericLister(widgets.GetIndexer(), schema.GroupResource{}).ByNamespace("shop").List(labels.Everything()); err != nil || len(all) != 1 {
			t.Errorf("listed %v, %v", all, err)
		}
	})
}

// Factories over dynamic and metadata clients.
func TestResourcePrograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		pods := corev1.SchemeGroupVersion.WithResource("pods")
		dynamicClient := dynamicfake.NewSimpleDynamicClient(fakeScheme(t), &corev1.Pod{ObjectMeta: object.ObjectMeta})
		metadataClient := metadatafake.NewSimpleMetadataClient(scheme, object)
		stop := make(chan struct{})
		dynamic := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicClient, 0, "shop", nil)
		metadata := metadatainformer.NewFilteredSharedInformerFactory(metadataClient, 0, "shop", func(*metav1.ListOptions) {})
		alone := []informers.GenericInformer{
			dynamicinformer.NewFilteredDynamicInformer(dynamicClient, pods, "shop", 0, cache.Indexers{}, nil),
			metadatainformer.NewFilteredMetadataInformer(metadataClient, pods, "", 0, cache.Indexers{}, nil),
		}
		all := append(alone, dynamic.ForResource(pods), metadata.ForResource(pods))
		dynamic.Start(stop)
		metadata.Start(stop)
		var running sync.WaitGroup
		for _, inf := range alone {
			running.Go(func() { inf.Informer().Run(stop) })
		}
		for i, inf := range all {
			cache.WaitForCacheSync(stop, inf.Informer().HasSynced)
			if _, err := inf.Lister().ByNamespace("shop").Get("web"); err != nil {
				t.Errorf("informer %d: %v", i, err)
			}
		}
		close(stop)
		dynamic.Shutdown()
		metadata.Shutdown()
		running.Wait()
	})
}

func fakeScheme(t *testing.T) *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}
