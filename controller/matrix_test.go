package controller_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientfeatures "k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
)

// matrix has the writes to one resource by many clients.
type matrix struct {
	resource schema.GroupVersionResource
	clients  map[string]func(*rest.Config) verbs
	objects  func() []tidings.Object // that the server has before the write
}

var (
	deploymentMatrix = matrix{deployments, clients, func() []tidings.Object {
		d := dying(deployment(""), "example.com/x")
		d.Name = "dying"
		return []tidings.Object{deployment("a"), d}
	}}
	podMatrix = matrix{pods, podClients, func() []tidings.Object {
		unbound := latePod("a")
		unbound.Spec.NodeName = ""
		return []tidings.Object{unbound, latePod("bound")}
	}}
)

// TestWritesOfEveryClient makes each write with each client, in reconciles of a controller whose cache is late. The
// next reconcile of the key must see what the server had after the write, and those of other keys must not wait.
func TestWritesOfEveryClient(t *testing.T) {
	t.Run("typed", testMatrix[*appsv1.Deployment](deploymentMatrix))
	t.Run("unstructured", testMatrix[*unstructured.Unstructured](deploymentMatrix))
	t.Run("metadata", testMatrix[*metav1.PartialObjectMetadata](deploymentMatrix))
}

// TestPodWritesOfEveryClient does the same with evictions and bindings.
func TestPodWritesOfEveryClient(t *testing.T) {
	t.Run("typed", testMatrix[*corev1.Pod](podMatrix))
	t.Run("unstructured", testMatrix[*unstructured.Unstructured](podMatrix))
	t.Run("metadata", testMatrix[*metav1.PartialObjectMetadata](podMatrix))
}

func testMatrix[T tidings.Object](m matrix) func(t *testing.T) {
	modes := map[string][]string{"all": nil, "one": {"default"}, "several": {"other", "default"}}
	return func(t *testing.T) {
		for _, mode := range slices.Sorted(maps.Keys(modes)) {
			for _, client := range slices.Sorted(maps.Keys(m.clients)) {
				for _, verb := range slices.Sorted(maps.Keys(m.clients[client](&rest.Config{}))) {
					t.Run(strings.Join([]string{mode, client, verb}, "/"), func(t *testing.T) {
						cbor := strings.HasPrefix(client, "cbor")
						featurestesting.SetFeatureDuringTest(t, clientfeatures.ClientsAllowCBOR, cbor)
						featurestesting.SetFeatureDuringTest(t, clientfeatures.ClientsPreferCBOR, cbor)
						synctest.Test(t, func(t *testing.T) { testVerb[T](t, m, modes[mode], client, verb) })
					})
				}
			}
		}
	}
}

func testVerb[T tidings.Object](t *testing.T, m matrix, namespaces []string, client, verb string) {
	var truth map[tidings.Key]string
	scope := tidings.Scope{Resource: m.resource, Namespaces: namespaces}
	w := newLateWorld(t, scope, m.objects(), func(ctx context.Context, w *lateWorld[T]) {
		if err := m.clients[client](w.config)[verb](ctx); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
		truth = w.server.Versions(m.resource)
	})
	var held map[tidings.Key]string
	w.look = func() {
		held = map[tidings.Key]string{}
		for key, o := range w.cache.Snapshot().All() {
			held[key] = o.GetResourceVersion()
		}
	}
	before := w.server.Versions(m.resource)
	waited := w.twice()
	if !maps.Equal(held, truth) {
		t.Errorf("reconciled with %v, but the server had %v", held, truth)
	}
	changes := verb != "dry run" && (verb != "nothing" || client == "apply")
	if maps.Equal(truth, before) == changes {
		t.Errorf("the write changed %v to %v", before, truth)
	}
	lookups := uint64(0)
	if verb == "bind" { // whose answer names no version
		lookups = 1
	}
	if (w.cbor.Load() > 0) != strings.HasPrefix(client, "cbor") {
		t.Errorf("%d answers in CBOR", w.cbor.Load())
	}
	st := w.controller.Stats()
	if (waited > 0) != changes || waited > late+time.Second || st.GateTimeouts != 0 || st.GateLookups != lookups {
		t.Errorf("waited for %v; %d waits, %d timeouts, %d look-ups", waited, st.GateWaits, st.GateTimeouts, st.GateLookups)
	}
}
