package clientgo_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	kcache "k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/clientgo/cache"
	"github.com/tidings/tidings/clientgo/informers"
)

// notes records what a handler is told.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.lines
	n.lines = nil
	return lines
}

// stateOf returns what distinguishes the states of an object that has no versions.
func stateOf(o any) string {
	m, err := meta.Accessor(o)
	if err != nil {
		return err.Error()
	}
	state := m.GetName() + "=" + m.GetLabels()["state"]
	if p, ok := o.(*corev1.Pod); ok {
		state += string(p.Status.Phase)
	}
	return state
}

func (n *notes) handler() kcache.ResourceEventHandler {
	return kcache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { n.add("add %s", stateOf(o)) },
		UpdateFunc: func(old, o any) { n.add("update %s to %s", stateOf(old), stateOf(o)) },
		DeleteFunc: func(o any) { n.add("delete %s", stateOf(o)) },
	}
}

// runOverFake runs an informer until the test ends.
func runOverFake(t *testing.T, inf kcache.SharedIndexInformer) *notes {
	t.Helper()
	n := &notes{}
	if _, err := inf.AddEventHandler(n.handler()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); inf.RunWithContext(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return n
}

// podInformers are the ways to an informer of pods over a fake clientset; client-go's shows that the test is right.
func podInformers(client *fake.Clientset) map[string]kcache.SharedIndexInformer {
	lw := func() *kcache.ListWatch {
		return &kcache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
				return client.CoreV1().Pods("").List(ctx, opts)
			},
			WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				return client.CoreV1().Pods("").Watch(ctx, opts)
			},
		}
	}
	return map[string]kcache.SharedIndexInformer{
		"client-go": kcache.NewSharedIndexInformer(kcache.ToListWatcherWithWatchListSemantics(lw(), client), &corev1.Pod{}, 0, kcache.Indexers{}),
		"factory":   informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer(),
		"cache":     cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(lw(), client), &corev1.Pod{}, 0, cache.Indexers{}),
	}
}

func fixture(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: "1", ResourceVersion: version}}
}

// TestFakeClientsetNeverRaisesVersions: the states of a fixture all have its resource version, and
// reach the store and the handlers.
func TestFakeClientsetNeverRaisesVersions(t *testing.T) {
	for _, name := range []string{"client-go", "factory", "cache"} {
		for _, version := range []string{"", "1", "999"} {
			t.Run(fmt.Sprintf("%s/version %q", name, version), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					client := fake.NewSimpleClientset(fixture("x", version), fixture("other", version), fixture("third", version))
					inf := podInformers(client)[name]
					n := runOverFake(t, inf)
					n.take()
					pods := client.CoreV1().Pods("a")
					must := func(_ any, err error) {
						t.Helper()
						if err != nil {
							t.Fatal(err)
						}
					}
					for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded} {
						p := fixture("x", version)
						p.Status.Phase = phase
						_, err := pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
						must(nil, err)
					}
					synctest.Wait()
					must(nil, pods.Delete(t.Context(), "x", metav1.DeleteOptions{}))
					synctest.Wait()
					_, err := pods.Create(t.Context(), fixture("x", version), metav1.CreateOptions{})
					must(nil, err)
					_, err = pods.Create(t.Context(), fixture("new", version), metav1.CreateOptions{})
					must(nil, err)
					synctest.Wait()
					want := []string{
						"update x= to x=Pending", "update x=Pending to x=Running", "update x=Running to x=Succeeded", "delete x=Succeeded", "add x=", "add new=",
					}
					if got := n.take(); !slices.Equal(got, want) {
						t.Errorf("got  %q\nwant %q", got, want)
					}
					if o, ok, err := inf.GetStore().GetByKey("a/x"); !ok || err != nil || stateOf(o) != "x=" {
						t.Errorf("the store has %v, %t, %v", o, ok, err)
					}
				})
			})
		}
	}
}

// TestFakeDynamicAndMetadataClients raise no versions either.
func TestFakeDynamicAndMetadataClients(t *testing.T) {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	pod := func(state string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
		u.SetNamespace("a")
		u.SetName("x")
		u.SetResourceVersion("7")
		u.SetLabels(map[string]string{"state": state})
		return u
	}
	metadata := func(state string) *metav1.PartialObjectMetadata {
		m := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: fixture("x", "7").ObjectMeta}
		m.Labels = map[string]string{"state": state}
		return m
	}
	for name, of := range map[string]func() (kcache.SharedIndexInformer, func(ctx context.Context, state string) error){
		"dynamic": func() (kcache.SharedIndexInformer, func(ctx context.Context, state string) error) {
			client := dynamicfake.NewSimpleDynamicClient(scheme.Scheme, pod("1"))
			inf := clientgo.NewDynamicSharedInformerFactoryFromClient(client, 0).ForResource(pods).Informer()
			return inf, func(ctx context.Context, state string) error {
				_, err := client.Resource(pods).Namespace("a").Update(ctx, pod(state), metav1.UpdateOptions{})
				return err
			}
		},
		"metadata": func() (kcache.SharedIndexInformer, func(ctx context.Context, state string) error) {
			known := metadatafake.NewTestScheme()
			if err := metav1.AddMetaToScheme(known); err != nil {
				t.Fatal(err)
			}
			client := metadatafake.NewSimpleMetadataClient(known, metadata("1"))
			inf := clientgo.NewMetadataSharedInformerFactoryFromClient(client, 0).ForResource(pods).Informer()
			return inf, func(ctx context.Context, state string) error {
				_, err := client.Resource(pods).Namespace("a").(metadatafake.MetadataClient).UpdateFake(metadata(state), metav1.UpdateOptions{})
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf, update := of()
				n := runOverFake(t, inf)
				for _, state := range []string{"2", "3", "3", "4"} {
					if err := update(t.Context(), state); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				// client-go also calls handlers for the one that changes nothing.
				want := []string{"add x=1", "update x=1 to x=2", "update x=2 to x=3", "update x=3 to x=4"}
				if got := n.take(); !slices.Equal(got, want) {
					t.Errorf("got  %q\nwant %q", got, want)
				}
			})
		})
	}
}

// TestObjectsWithoutAName: a fake clientset creates objects with generateName without a name.
func TestObjectsWithoutAName(t *testing.T) {
	for _, name := range []string{"client-go", "factory", "cache"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nameless := func(namespace, state string) *corev1.Pod {
					p := fixture("", "")
					p.Namespace, p.GenerateName, p.Labels = namespace, "web-", map[string]string{"state": state}
					return p
				}
				client := fake.NewSimpleClientset(nameless("b", "1"), fixture("x", ""))
				inf := podInformers(client)[name]
				n := runOverFake(t, inf)
				got := n.take()
				slices.Sort(got)
				if want := []string{"add =1", "add x="}; !slices.Equal(got, want) {
					t.Errorf("listed: got %q, want %q", got, want)
				}
				client.Tracker().Add(nameless("a", "2"))
				synctest.Wait()
				changed := nameless("a", "3")
				if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), changed, "a"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got, want := n.take(), []string{"add =2", "update =2 to =3"}; !slices.Equal(got, want) {
					t.Errorf("watched: got %q, want %q", got, want)
				}
				keys := inf.GetStore().ListKeys()
				slices.Sort(keys)
				if !slices.Equal(keys, []string{"a/", "a/x", "b/"}) {
					t.Errorf("keys: %q", keys)
				}
				if o, ok, err := inf.GetStore().GetByKey("a/"); !ok || err != nil || stateOf(o) != "=3" {
					t.Errorf("a/: %v, %t, %v", o, ok, err)
				}
				if o, ok, err := inf.GetStore().Get(changed); !ok || err != nil || stateOf(o) != "=3" {
					t.Errorf("by object: %v, %t, %v", o, ok, err)
				}
			})
		})
	}
}

// TestFakeListsWithOtherVersions than their objects have: versions of fakes prove nothing,
// whichever is greater, and also when the pods are listed again after a watch.
func TestFakeListsWithOtherVersions(t *testing.T) {
	for _, name := range []string{"client-go", "factory", "cache"} {
		for _, list := range []string{"", "5", "1000"} {
			for _, version := range []string{"", "3", "999"} {
				t.Run(fmt.Sprintf("%s/list %q/fixtures %q", name, list, version), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testOtherVersions(t, name, list, version) })
				})
			}
		}
	}
}

func testOtherVersions(t *testing.T, name, list, version string) {
	resource, kind := corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod")
	client := fake.NewSimpleClientset(fixture("x", version), fixture("other", version))
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		pods, err := client.Tracker().List(resource, kind, "")
		if err == nil {
			pods.(*corev1.PodList).ResourceVersion = list
		}
		return true, pods, err
	})
	var last watch.Interface
	client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(resource, "")
		last = w
		return true, w, err
	})
	inf := podInformers(client)[name]
	runOverFake(t, inf)
	pods := client.CoreV1().Pods("a")
	check := func(when string, want ...string) {
		t.Helper()
		synctest.Wait()
		var got []string
		for _, o := range inf.GetStore().List() {
			got = append(got, stateOf(o))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: the store has %q, want %q", when, got, want)
		}
	}
	create := func(name string) {
		t.Helper()
		if _, err := pods.Create(t.Context(), fixture(name, version), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(name string) {
		t.Helper()
		if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("new")
	check("created", "new=", "other=", "x=")
	remove("x")
	check("deleted", "new=", "other=")
	create("x")
	p := fixture("x", "2")
	p.Status.Phase = corev1.PodRunning
	if _, err := pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	check("updated at a lower version", "new=", "other=", "x=Running")
	if name == "client-go" { // it would only watch again, and miss what happens in between
		return
	}
	last.Stop()
	remove("other")
	remove("x")
	create("third")
	time.Sleep(5 * time.Minute)
	check("after another list", "new=", "third=")
	create("fourth")
	check("created after another list", "fourth=", "new=", "third=")
}

// TestTransformReturnsNil: the pod is left out, whether the nil has a type or not.
func TestTransformReturnsNil(t *testing.T) {
	for _, name := range []string{"factory", "cache"} {
		for typ, none := range map[string]any{"nil": nil, "a nil *Pod": (*corev1.Pod)(nil)} {
			t.Run(name+"/"+typ, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					client := fake.NewSimpleClientset(fixture("x", "1"), fixture("out", "1"))
					inf := podInformers(client)[name]
					if err := inf.SetTransform(func(o any) (any, error) {
						if p := o.(*corev1.Pod); p.Name == "out" || p.Status.Phase == corev1.PodSucceeded {
							return none, nil
						}
						return o, nil
					}); err != nil {
						t.Fatal(err)
					}
					n := runOverFake(t, inf)
					p := fixture("x", "1")
					p.Status.Phase = corev1.PodSucceeded
					if _, err := client.CoreV1().Pods("a").UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if got := n.take(); !slices.Equal(got, []string{"add x=", "delete x="}) || len(inf.GetStore().List()) != 0 {
						t.Errorf("got %q, and the store has %v", got, inf.GetStore().List())
					}
				})
			})
		}
	}
}
