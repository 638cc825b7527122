package controller_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/controllerruntime/examples/fleet/api"
	"github.com/tidings/tidings/controllerruntime/examples/fleet/controller"
	"github.com/tidings/tidings/tidingstest"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

var newCaches = map[string]cache.NewCacheFunc{"controller-runtime": cache.New, "tidings": tidingsruntime.NewCache}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestFleet runs the operator's tests with both caches, in a bubble: its timers cost nothing, and
// goroutine leaks fail the test.
func TestFleet(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(newCaches)) {
		onTestServer(t, name)
	}
}

func onTestServer(t *testing.T, name string) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := tidingstest.NewServer(t, tidingstest.ServerOptions{RequireNamespaces: true})
			testFleet(t, server.Config(), "", newCaches[name])
		})
	})
}

// rounds is how often the tests run against each server, to take the median: the first round
// includes one-time setup of the process.
const rounds = 3

// TestFleetOnControlPlane runs the same tests against a real API server, and logs how much longer that takes.
func TestFleetOnControlPlane(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	var plane *controlplane.ControlPlane
	start := timed(func() { plane = controlplane.Start(t, controlplane.Options{}) })
	for _, name := range slices.Sorted(maps.Keys(newCaches)) {
		var planes, servers []time.Duration
		for round := range rounds {
			suffix := fmt.Sprintf("-%s-%d", name, round)
			planes = append(planes, timed(func() {
				t.Run(name, func(t *testing.T) { testFleet(t, plane.Config(), suffix, newCaches[name]) })
			}))
			servers = append(servers, timed(func() { onTestServer(t, name) }))
		}
		onPlane, onServer := median(planes), median(servers)
		t.Logf("cache of %s: %v to start a control plane, %v for the tests; %v on the test server, which is %.0f times as fast, %.0f times without the start", name,
			start.Round(time.Millisecond), onPlane.Round(time.Millisecond), onServer.Round(time.Millisecond),
			(start+onPlane).Seconds()/onServer.Seconds(), onPlane.Seconds()/onServer.Seconds())
	}
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

func timed(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}

// operatorTest is a running operator.
type operatorTest struct {
	*testing.T
	ctx                               context.Context
	kube                              client.WithWatch // without a cache
	registerNamespace, fleetNamespace string

	mu      sync.Mutex
	changed chan struct{} // closed and replaced on every change
}

// testFleet tests the operator in namespaces that end in suffix.
func testFleet(t *testing.T, config *rest.Config, suffix string, newCache cache.NewCacheFunc) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	h := &operatorTest{T: t, ctx: ctx, registerNamespace: "office" + suffix, fleetNamespace: "sea" + suffix, changed: make(chan struct{})}
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	h.install(config)
	for _, list := range []client.ObjectList{&api.FleetList{}, &corev1.PodList{}, &corev1.ConfigMapList{}} {
		w, err := h.kube.Watch(ctx, list)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		running.Go(func() {
			for range w.ResultChan() {
				h.signal()
			}
		})
	}
	mgr := newManager(t, config, h.registerNamespace, newCache)
	running.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			t.Errorf("the manager: %v", err)
		}
	})
	h.keepsItsSize()
	h.followsItsOrders()
	h.reportsReadyPods()
	h.leavesTheRegister()
}

func newScheme(t testing.TB) *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, api.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func newManager(t testing.TB, config *rest.Config, registerNamespace string, newCache cache.NewCacheFunc) ctrl.Manager {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: newScheme(t), NewCache: newCache, Metrics: metricsserver.Options{BindAddress: "0"},
		// Until controller-runtime 0.25, a goroutine of the priority queue stays behind if a request is added to it while
		// it is shut down.
		Controller: ctrlconfig.Controller{UsePriorityQueue: new(false)},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &controller.Reconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme(), RegisterNamespace: registerNamespace}
	if err := r.SetupWithManager(t.Context(), mgr); err != nil {
		t.Fatal(err)
	}
	return mgr
}

// install creates what the operator needs, and waits until the server has fleets.
func (h *operatorTest) install(config *rest.Config) {
	h.Helper()
	var err error
	if h.kube, err = client.NewWithWatch(config, client.Options{Scheme: newScheme(h)}); err != nil {
		h.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(api.CRD, &crd.Object); err != nil {
		h.Fatal(err)
	}
	if err := h.kube.Create(h.ctx, crd); err != nil && !apierrors.IsAlreadyExists(err) {
		h.Fatal(err)
	}
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.registerNamespace}})
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.fleetNamespace}})
	h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.registerNamespace, Name: controller.Register}})
	err = wait.PollUntilContextCancel(h.ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return h.kube.List(ctx, &api.FleetList{}) == nil, nil
	})
	if err != nil {
		h.Fatalf("the server has no fleets: %v", err)
	}
}

func (h *operatorTest) signal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.changed)
	h.changed = make(chan struct{})
}

// eventually waits until problem returns "".
func (h *operatorTest) eventually(problem func() string) {
	h.Helper()
	for {
		h.mu.Lock()
		changed := h.changed
		h.mu.Unlock()
		left := problem()
		if left == "" {
			return
		}
		select {
		case <-changed:
		case <-h.ctx.Done():
			h.Fatalf("still after minutes: %s", left)
		}
	}
}

func (h *operatorTest) create(obj client.Object) {
	h.Helper()
	if err := h.kube.Create(h.ctx, obj); err != nil {
		h.Fatal(err)
	}
}

// change updates an object, and retries on conflicts.
func (h *operatorTest) change(obj client.Object, change func()) {
	h.Helper()
	for {
		if err := h.kube.Get(h.ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			h.Fatal(err)
		}
		change()
		if err := h.kube.Update(h.ctx, obj); !apierrors.IsConflict(err) {
			if err != nil {
				h.Fatal(err)
			}
			return
		}
	}
}

// createFleet creates a fleet.
func (h *operatorTest) createFleet(name string, size int, orders string) *api.Fleet {
	h.Helper()
	fleet := &api.Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: h.fleetNamespace, Name: name}, Spec: api.FleetSpec{Size: size, Image: "ship", Orders: orders}}
	h.create(fleet)
	return fleet
}

// pods returns the pods of a fleet, sorted by name.
func (h *operatorTest) pods(fleet *api.Fleet) (pods []corev1.Pod) {
	h.Helper()
	var all corev1.PodList
	if err := h.kube.List(h.ctx, &all, client.InNamespace(fleet.Namespace)); err != nil {
		h.Fatal(err)
	}
	for _, p := range all.Items {
		if metav1.IsControlledBy(&p, fleet) && p.DeletionTimestamp.IsZero() {
			pods = append(pods, p)
		}
	}
	return pods
}

// hasPods waits until a fleet has the pods numbered below size, and sets their status to running.
func (h *operatorTest) hasPods(fleet *api.Fleet, size int) {
	h.Helper()
	h.eventually(func() string {
		var names []string
		for _, p := range h.pods(fleet) {
			names = append(names, p.Name)
		}
		for i := range size {
			if want := fmt.Sprintf("%s-%d", fleet.Name, i); !slices.Contains(names, want) {
				return fmt.Sprintf("%s is missing of %v", want, names)
			}
		}
		if len(names) != size {
			return fmt.Sprintf("there are %v, %d are wanted", names, size)
		}
		return h.reports(fleet, func(s api.FleetStatus) bool { return s.Pods == size })
	})
}

func (h *operatorTest) reports(fleet *api.Fleet, right func(api.FleetStatus) bool) string {
	h.Helper()
	if err := h.kube.Get(h.ctx, client.ObjectKeyFromObject(fleet), fleet); err != nil {
		h.Fatal(err)
	}
	if !right(fleet.Status) {
		return fmt.Sprintf("the status of %s is %+v", fleet.Name, fleet.Status)
	}
	return ""
}

func (h *operatorTest) keepsItsSize() {
	fleet := h.createFleet("grand", 3, "")
	h.hasPods(fleet, 3)
	for _, size := range []int{7, 0, 2} {
		h.change(fleet, func() { fleet.Spec.Size = size })
		h.hasPods(fleet, size)
	}
	lost := h.pods(fleet)[0]
	if err := h.kube.Delete(h.ctx, &lost); err != nil {
		h.Fatal(err)
	}
	h.eventually(func() string {
		for _, p := range h.pods(fleet) {
			if p.Name == lost.Name && p.UID != lost.UID {
				return ""
			}
		}
		return lost.Name + " has not come back"
	})
}

func (h *operatorTest) followsItsOrders() {
	orders := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: h.fleetNamespace, Name: "orders"}, Data: map[string]string{"orders": "sail"}}
	first, second := h.createFleet("first", 2, "orders"), h.createFleet("second", 2, "orders")
	h.create(orders)
	obey := func(text string) {
		h.eventually(func() string {
			for _, fleet := range []*api.Fleet{first, second} {
				obeying := 0
				for _, p := range h.pods(fleet) {
					if p.Annotations[controller.OrdersAnnotation] == text {
						obeying++
					}
				}
				if obeying != 2 {
					return fmt.Sprintf("%d of %s obey %q", obeying, fleet.Name, text)
				}
			}
			return ""
		})
	}
	obey("sail")
	h.change(orders, func() { orders.Data["orders"] = "anchor" })
	obey("anchor")
}

func (h *operatorTest) reportsReadyPods() {
	fleet := h.createFleet("ready", 3, "")
	h.hasPods(fleet, 3)
	for i, p := range h.pods(fleet) {
		before := client.MergeFrom(p.DeepCopy())
		p.Status.Phase = corev1.PodRunning
		if err := h.kube.Status().Patch(h.ctx, &p, before); err != nil {
			h.Fatal(err)
		}
		h.eventually(func() string { return h.reports(fleet, func(s api.FleetStatus) bool { return s.Ready == i+1 }) })
	}
}

func (h *operatorTest) leavesTheRegister() {
	registered := func() string {
		var register corev1.ConfigMap
		if err := h.kube.Get(h.ctx, client.ObjectKey{Namespace: h.registerNamespace, Name: controller.Register}, &register); err != nil {
			h.Fatal(err)
		}
		var here []string
		for name := range register.Data {
			if name, ok := strings.CutPrefix(name, h.fleetNamespace+"."); ok {
				here = append(here, name)
			}
		}
		slices.Sort(here)
		return strings.Join(here, " ")
	}
	fleet := h.createFleet("brief", 1, "")
	h.hasPods(fleet, 1)
	if got := registered(); got != "brief first grand ready second" {
		h.Errorf("registered: %s", got)
	}
	if err := h.kube.Delete(h.ctx, fleet); err != nil {
		h.Fatal(err)
	}
	h.eventually(func() string {
		if err := h.kube.Get(h.ctx, client.ObjectKeyFromObject(fleet), fleet); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the fleet is there: %v", err)
		}
		return ""
	})
	if got := registered(); got != "first grand ready second" {
		h.Errorf("registered after the deletion: %s", got)
	}
}
