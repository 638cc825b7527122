package clientgo_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kcache "k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/clientgo/cache"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// shape is a way in which a program writes its list and watch functions.
type shape struct {
	contextless bool
	wrapping    string // of the ListWatch
	namespace   string
	tweak       func(*metav1.ListOptions)
	around      string // what the functions do around the client's call
	onlyWatch   bool   // only the watch function does it
	first       string // what the first call does: nothing, "fails", "panics" or "takes long"
	calls       atomic.Int32
}

// changes reports whether the functions change what the server sends, or send other requests as well.
func (s *shape) changes() bool {
	return slices.Contains([]string{"filters", "labels", "renames", "asks twice"}, s.around)
}

func randomShape(random *rand.Rand) *shape {
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	s := &shape{
		contextless: random.IntN(2) == 0, namespace: pick("", "shop"), onlyWatch: random.IntN(4) == 0,
		wrapping: pick("", "semantics", "counting"),
		around:   pick("", "", "", "filters", "labels", "renames", "sorts", "asks twice", "other goroutine", "looks at context"),
		first:    pick("", "", "", "fails", "panics", "takes long"),
	}
	switch random.IntN(5) {
	case 0:
		s.tweak = func(o *metav1.ListOptions) { o.LabelSelector = "tier=front" }
	case 1:
		s.tweak = func(o *metav1.ListOptions) { o.FieldSelector = "spec.nodeName=node-1" }
	case 2:
		s.tweak = func(o *metav1.ListOptions) { o.Limit = 2 }
	case 3:
		s.tweak = func(o *metav1.ListOptions) {
			if !o.Watch && o.SendInitialEvents == nil && o.Continue == "" && !o.AllowWatchBookmarks {
				o.ResourceVersion = "0"
			}
		}
	default:
		s.tweak = func(*metav1.ListOptions) {}
	}
	return s
}

func (s *shape) String() string {
	var o metav1.ListOptions
	s.tweak(&o)
	return fmt.Sprintf("contextless=%t wrapping=%q namespace=%q options=%v around=%q onlyWatch=%t first=%q",
		s.contextless, s.wrapping, s.namespace, o, s.around, s.onlyWatch, s.first)
}

// listWatch returns the ListWatch of a program over a client.
func (s *shape) listWatch(client kubernetes.Interface) kcache.ListerWatcher {
	lw := &kcache.ListWatch{}
	if s.contextless {
		//lint:ignore SA1019 deprecated fields must work too
		lw.ListFunc = func(o metav1.ListOptions) (runtime.Object, error) { return s.list(context.Background(), client, o) }
		//lint:ignore SA1019 deprecated fields must work too
		lw.WatchFunc = func(o metav1.ListOptions) (watch.Interface, error) { return s.watch(context.Background(), client, o) }
	} else {
		lw.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return s.list(ctx, client, o)
		}
		lw.WatchFuncWithContext = func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return s.watch(ctx, client, o)
		}
	}
	switch s.wrapping {
	case "semantics":
		return kcache.ToListWatcherWithWatchListSemantics(lw, client)
	case "counting":
		return &countingListerWatcher{ListerWatcher: lw}
	}
	return lw
}

// countingListerWatcher counts calls and errors, as instrumented ones of programs do. It knows no contexts.
type countingListerWatcher struct {
	kcache.ListerWatcher
	calls, errors atomic.Int32
}

func (c *countingListerWatcher) count(err error) {
	c.calls.Add(1)
	if err != nil {
		c.errors.Add(1)
	}
}

func (c *countingListerWatcher) List(o metav1.ListOptions) (runtime.Object, error) {
	//lint:ignore SA1019 programs have only these methods
	list, err := c.ListerWatcher.List(o)
	c.count(err)
	return list, err
}

func (c *countingListerWatcher) Watch(o metav1.ListOptions) (watch.Interface, error) {
	//lint:ignore SA1019 programs have only these methods
	w, err := c.ListerWatcher.Watch(o)
	c.count(err)
	return w, err
}

var errFunction = errors.New("the function fails")

// begin does what the first call does.
func (s *shape) begin() error {
	if s.calls.Add(1) != 1 {
		return nil
	}
	switch s.first {
	case "fails":
		return errFunction
	case "panics":
		panic("the function panics")
	case "takes long":
		time.Sleep(20 * time.Second)
	}
	return nil
}

func (s *shape) list(ctx context.Context, client kubernetes.Interface, o metav1.ListOptions) (list runtime.Object, err error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	s.tweak(&o)
	var pods *corev1.PodList
	do := func() { pods, err = client.CoreV1().Pods(s.namespace).List(ctx, o) }
	if s.around == "other goroutine" {
		done := make(chan struct{})
		go func() { defer close(done); do() }()
		<-done
	} else {
		do()
	}
	if err != nil || s.onlyWatch {
		return pods, err
	}
	switch s.around {
	case "sorts":
		slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(b.Name, a.Name) })
	case "asks twice":
		if _, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			return nil, err
		}
	case "looks at context":
		if _, ok := ctx.Deadline(); ok {
			return nil, errFunction
		}
	}
	var kept []corev1.Pod
	for _, pod := range pods.Items {
		if s.change(&pod) {
			kept = append(kept, pod)
		}
	}
	pods.Items = kept
	return pods, nil
}

// change changes a pod, and reports whether it is kept.
func (s *shape) change(pod *corev1.Pod) bool {
	switch s.around {
	case "filters":
		return !strings.HasSuffix(pod.Name, "0-back")
	case "labels":
		pod.Labels = map[string]string{"seen": "yes"}
	case "renames":
		pod.Name = "my-" + pod.Name
	}
	return true
}

func (s *shape) watch(ctx context.Context, client kubernetes.Interface, o metav1.ListOptions) (watch.Interface, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	s.tweak(&o)
	w, err := client.CoreV1().Pods(s.namespace).Watch(ctx, o)
	if err != nil || !s.changes() || s.around == "asks twice" {
		return w, err
	}
	return s.changed(w), nil
}

// changed returns a watch whose objects are changed. Unlike that of watch.Filter, it ends when it is stopped.
func (s *shape) changed(w watch.Interface) watch.Interface {
	events := make(chan watch.Event)
	changed := watch.NewProxyWatcher(events)
	go func() {
		defer close(events)
		defer w.Stop()
		for e := range w.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if ok && e.Type != watch.Bookmark && !s.change(pod) {
				continue
			}
			select {
			case events <- e:
			case <-changed.StopChan():
				return
			}
		}
	}()
	go func() {
		<-changed.StopChan()
		w.Stop()
	}()
	return changed
}

// configOf returns a config for the server under a user agent.
func configOf(server *tidingstest.Server, agent string) *rest.Config {
	config := rest.CopyConfig(server.Config())
	config.UserAgent, config.QPS = agent, -1
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json" // see throughClient
	return config
}

// requestsOf returns what an agent has requested, and whether an informer itself decodes the answer to the last one.
func requestsOf(server *tidingstest.Server, agent string) (all []string, native bool) {
	for _, r := range reads(server) {
		if r.Header.Get("User-Agent") != agent {
			continue
		}
		query := r.Query
		query.Del("timeout")
		query.Del("timeoutSeconds")
		if r.Kind == tidingstest.Watch {
			query.Del("resourceVersion")
		}
		all = append(all, fmt.Sprint(r.Kind, " ", r.Path, " ", query.Encode()))
		native = !throughClient(r)
	}
	return all, native
}

// TestFunctions: an informer over functions that are read through has what one has that uses what they return, and
// sends the same requests.
func TestFunctions(t *testing.T) {
	testseed.Each(t, 150, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { testFunctions(t, rand.New(rand.NewPCG(seed, 0))) })
	})
}

func testFunctions(t *testing.T, random *rand.Rand) {
	server := shopServer(t, tidingstest.ServerOptions{NoWatchList: random.IntN(2) == 0})
	mine := randomShape(random)
	theirs := &shape{contextless: mine.contextless, wrapping: mine.wrapping, namespace: mine.namespace,
		tweak: mine.tweak, around: mine.around, onlyWatch: mine.onlyWatch, first: mine.first}
	t.Log(mine)
	through := mine.listWatch(kubernetes.NewForConfigOrDie(clientgo.Wrap(configOf(server, "mine"))))
	returned := theirs.listWatch(kubernetes.NewForConfigOrDie(configOf(server, "theirs")))
	got := cache.NewSharedIndexInformer(through, &corev1.Pod{}, 0, nil)
	want := cache.NewSharedIndexInformer(returned, &corev1.Pod{}, 0, nil)
	run(t, got)
	run(t, want)
	compare := func() {
		synctest.Wait()
		if !mine.changes() || !mine.onlyWatch { // else the content depends on when a list is made
			expectSame(t, got, want)
		}
	}
	time.Sleep(5 * time.Minute)
	compare()
	for range 12 {
		changeShop(server, random)
		time.Sleep(10 * time.Second)
	}
	compare()
	time.Sleep(30 * time.Minute) // several watches
	for range 4 {
		changeShop(server, random)
	}
	time.Sleep(time.Minute)
	compare()
	sent, native := requestsOf(server, "mine")
	expected, _ := requestsOf(server, "theirs")
	if mine.around != "filters" && mine.around != "asks twice" && native == mine.changes() { // those may never have
		t.Errorf("in the end, the functions are read through: %t; %q", native, sent)
	}
	if !mine.changes() && mine.first != "takes long" && !slices.Equal(distinct(sent), distinct(expected)) {
		t.Errorf("requests\n%s\nwant\n%s", strings.Join(sent, "\n"), strings.Join(expected, "\n"))
	}
	if c, ok := through.(*countingListerWatcher); ok && !mine.changes() && mine.first != "takes long" {
		of := returned.(*countingListerWatcher)
		calls := len(sent)
		if mine.first == "fails" {
			calls++
		}
		if int(c.calls.Load()) != calls || c.errors.Load() != of.errors.Load() {
			t.Errorf("%d calls with %d errors, want %d with %d", c.calls.Load(), c.errors.Load(), calls, of.errors.Load())
		}
	}
}

func distinct(all []string) []string { return slices.Compact(slices.Sorted(slices.Values(all))) }

// changeShop makes a random change.
func changeShop(server *tidingstest.Server, random *rand.Rand) {
	namespace := []string{"shop", "other"}[random.IntN(2)]
	tier := []string{"front", "back"}[random.IntN(2)]
	name := fmt.Sprintf("web-%d-%s", random.IntN(4), tier)
	pod := shopPod(namespace, name, tier, fmt.Sprintf("node-%d", random.IntN(3)))
	exists := slices.ContainsFunc(server.Objects(corev1.SchemeGroupVersion.WithResource("pods")), func(o object.Object) bool {
		return o.GetNamespace() == namespace && o.GetName() == name
	})
	switch {
	case !exists:
		server.Create(pod)
	case random.IntN(3) == 0:
		server.Delete(pod)
	default:
		pod.Annotations = map[string]string{"n": fmt.Sprint(random.IntN(1000))}
		server.Update(pod)
	}
}

func expectSame(t *testing.T, got, want kcache.SharedIndexInformer) {
	t.Helper()
	if !got.HasSynced() || !want.HasSynced() {
		t.Errorf("synced: %t, want %t", got.HasSynced(), want.HasSynced())
	}
	mine, theirs := sortedPods(got.GetStore()), sortedPods(want.GetStore())
	if !apiequality.Semantic.DeepEqual(mine, theirs) {
		t.Errorf("%v, want %v", describeAll(mine), describeAll(theirs))
	}
}

func describeAll(pods []*corev1.Pod) (all []string) {
	for _, pod := range pods {
		all = append(all, fmt.Sprint(pod.Namespace, "/", pod.Name, " ", pod.ResourceVersion, " ", pod.Labels))
	}
	return all
}
