package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

const (
	operations = 5000 // that succeed
	writers    = 8
	kills      = 3
	namesEach  = 25 // of objects in a namespace, of each resource
	// group is that of the custom resource.
	group = "chaos.example.com"
)

var (
	podResource    = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	configResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	chaosResources = []schema.GroupVersionResource{podResource, configResource, widgetsOf(group)}
)

// TestChaos lets writers change objects at random while the control plane is killed and restarted and the answers to
// informers are cut. At the end everybody must have the truth, and have been told it in order.
func TestChaos(t *testing.T) {
	tidingstest.CheckLeaks(t)
	seed := testseed.Seed(t)
	began := time.Now()
	// A kill ends the process, not the system, which still holds what was written: waiting for the disk proves nothing.
	cp := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true})
	server := newServer(t, cp, seed)

	cut := &cutter{rand: rand.New(rand.NewPCG(seed, writers))}
	config := cp.Config()
	config.Wrap(cut.wrap)
	var mutations atomic.Int64
	f := startFactory(t, config, tidings.Options{Backoff: quick, OnMutation: func(tidings.Mutation) { mutations.Add(1) }})
	pods := newWitness[*corev1.Pod](t, f, podResource, tidings.Scope{}, server.keys())
	two := server.namespaces[:2]
	witnesses := []interface {
		listenLate(*testing.T)
		examine(*testing.T)
		settle(*testing.T, *apiServer)
	}{
		pods,
		newWitness[*corev1.Pod](t, f, podResource, tidings.Scope{Namespaces: two, Trim: tidings.Trim{tidings.ManagedFields}}, server.keys()),
		newWitness[*corev1.Pod](t, f, podResource, tidings.Scope{Labels: "color=red"}, server.keys()),
		newWitness[*metav1.PartialObjectMetadata](t, f, podResource, tidings.Scope{Namespaces: two[:1]}, server.keys()),
		newWitness[*corev1.ConfigMap](t, f, configResource, tidings.Scope{}, server.keys()),
		newWitness[*corev1.ConfigMap](t, f, configResource, tidings.Scope{Labels: "color", Trim: tidings.Trim{tidings.ManagedFields}}, server.keys()),
		newWitness[*unstructured.Unstructured](t, f, widgetsOf(group), tidings.Scope{}, server.keys()),
		newWitness[*Widget](t, f, widgetsOf(group), tidings.Scope{Labels: "color in (red, blue)"}, server.keys()),
	}
	server.onPod = func(ctx context.Context, written *unstructured.Unstructured) error {
		return readOwnWrite(ctx, pods.inf, written)
	}

	done := server.write(t)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for killed := 0; ; {
		select {
		case <-server.milestone:
			killed++
			server.killAndRestart(t, func() {
				for _, w := range witnesses {
					w.listenLate(t)
				}
			})
			continue
		case <-look.C:
			for _, w := range witnesses {
				w.examine(t)
			}
			continue
		case <-done:
		}
		if killed != kills {
			t.Errorf("the control plane was killed %d times, want %d", killed, kills)
		}
		break
	}
	wrote := time.Since(began)
	for _, w := range witnesses {
		w.settle(t, server)
	}
	if mutations.Load() > 0 || cut.count() == 0 {
		t.Errorf("%d mutations, %d cuts", mutations.Load(), cut.count())
	}
	t.Logf("%d operations in %v, settled %v later; %d cuts, %d kills", operations, wrote.Round(time.Millisecond),
		(time.Since(began) - wrote).Round(time.Millisecond), cut.count(), kills)
}

// readOwnWrite waits until the informer is as new as what was written, and looks for it.
func readOwnWrite(ctx context.Context, inf *tidings.SharedInformer[*corev1.Pod], written *unstructured.Unstructured) error {
	if err := inf.WaitForVersion(ctx, written.GetNamespace(), written.GetResourceVersion()); err != nil {
		return err
	}
	pod, ok := inf.Get(object.KeyOf(written)) // another writer may have deleted it
	if ok && object.OlderResourceVersion(pod.ResourceVersion, written.GetResourceVersion()) {
		return fmt.Errorf("pod %s is at version %s, although the store is current to %s", pod.Name, pod.ResourceVersion, written.GetResourceVersion())
	}
	return nil
}

// apiServer is the control plane as the writers see it.
type apiServer struct {
	plane      *controlplane.ControlPlane
	client     dynamic.Interface
	seed       uint64
	namespaces []string
	onPod      func(ctx context.Context, written *unstructured.Unstructured) error // called now and then

	succeeded atomic.Int64
	milestone chan struct{} // gets a token when it is time to kill the control plane

	mu sync.Mutex
	up chan struct{} // closed while the control plane runs
}

func newServer(t *testing.T, cp *controlplane.ControlPlane, seed uint64) *apiServer {
	t.Helper()
	s := &apiServer{plane: cp, client: dynamicFor(t, cp.Config()), seed: seed, milestone: make(chan struct{}, kills), up: make(chan struct{})}
	close(s.up)
	for range 3 {
		s.namespaces = append(s.namespaces, newNamespace(t, clientFor(t, cp.Config())))
	}
	installCRD(t, s.client, group)
	f := startFactory(t, cp.Config(), tidings.Options{Backoff: quick})
	informer[*Widget](t, f, tidings.Scope{Resource: widgetsOf(group)})
	waitForSync(t, f) // which means that widgets are served
	return s
}

// keys is how many objects of a resource there can be.
func (s *apiServer) keys() int { return namesEach * len(s.namespaces) }

// killAndRestart kills the control plane, and calls meanwhile before it starts it again.
func (s *apiServer) killAndRestart(t *testing.T, meanwhile func()) {
	t.Helper()
	s.mu.Lock()
	s.up = make(chan struct{})
	s.mu.Unlock()
	s.plane.Kill()
	meanwhile()
	if err := s.plane.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	close(s.up)
	s.mu.Unlock()
}

// awaitUp waits while the control plane is down.
func (s *apiServer) awaitUp(ctx context.Context) {
	s.mu.Lock()
	up := s.up
	s.mu.Unlock()
	select {
	case <-up:
	case <-ctx.Done():
	}
}

// list returns what the server has of a scope.
func (s *apiServer) list(t *testing.T, scope tidings.Scope) map[tidings.Key]*unstructured.Unstructured {
	t.Helper()
	if len(scope.Namespaces) == 0 {
		scope.Namespaces = []string{tidings.All}
	}
	all := map[tidings.Key]*unstructured.Unstructured{}
	for _, namespace := range scope.Namespaces {
		list, err := s.client.Resource(scope.Resource).Namespace(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: scope.Labels})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			all[object.KeyOf(&list.Items[i])] = &list.Items[i]
		}
	}
	return all
}

// write starts the writers. done is closed when they have finished.
func (s *apiServer) write(t *testing.T) (done <-chan struct{}) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(s.seed, uint64(i)))
			for ctx.Err() == nil && s.succeeded.Load() < operations {
				if err := s.writeOnce(ctx, random); err != nil && ctx.Err() == nil {
					t.Errorf("writer %d: %v", i, err)
					return
				}
			}
		})
	}
	finished := make(chan struct{})
	go func() {
		wg.Wait()
		close(finished)
	}()
	t.Cleanup(func() {
		cancel()
		<-finished
	})
	return finished
}

// writeOnce tries one random operation: to delete an object, or to change it, or to create it where
// there is none. It is no error if the control plane is down, or another writer was quicker.
func (s *apiServer) writeOnce(ctx context.Context, random *rand.Rand) error {
	s.awaitUp(ctx)
	resource := chaosResources[random.IntN(len(chaosResources))]
	namespace, name := s.namespaces[random.IntN(len(s.namespaces))], fmt.Sprint("object-", random.IntN(namesEach))
	objects := s.client.Resource(resource).Namespace(namespace)
	var written *unstructured.Unstructured
	var err error
	if random.IntN(10) < 3 {
		err = objects.Delete(ctx, name, metav1.DeleteOptions{})
	} else if written, err = objects.Patch(ctx, name, types.MergePatchType, randomPatch(random), metav1.PatchOptions{}); apierrors.IsNotFound(err) {
		written, err = objects.Create(ctx, randomObject(random, resource, name), metav1.CreateOptions{})
	}
	if err != nil {
		return s.unexpected(err)
	}
	s.count()
	if written != nil && resource == podResource && random.IntN(20) == 0 {
		return s.onPod(ctx, written)
	}
	return nil
}

// unexpected returns err if it is a refusal that no race between writers explains.
func (s *apiServer) unexpected(err error) error {
	status := apierrors.APIStatus(nil)
	switch {
	case !errors.As(err, &status):
		return nil // of the network
	case apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		return nil
	case status.Status().Code == 429 || status.Status().Code >= 500:
		return nil // it is starting or stopping
	default:
		return err
	}
}

// count counts a successful operation.
func (s *apiServer) count() {
	n := s.succeeded.Add(1)
	for i := range int64(kills) {
		if n == operations*(i+1)/(kills+1) {
			s.milestone <- struct{}{}
		}
	}
}

func randomColor(random *rand.Rand) any {
	return []any{"red", "green", "blue", nil}[random.IntN(4)]
}

func randomText(random *rand.Rand) string { return strings.Repeat("x", random.IntN(1000)) }

func randomObject(random *rand.Rand, resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	metadata := map[string]any{"name": name, "annotations": map[string]any{"n": fmt.Sprint(random.Int())}}
	if color := randomColor(random); color != nil {
		metadata["labels"] = map[string]any{"color": color}
	}
	o := map[string]any{"metadata": metadata}
	switch resource {
	case podResource:
		o["apiVersion"], o["kind"] = "v1", "Pod"
		o["spec"] = map[string]any{"containers": []any{map[string]any{"name": "main", "image": "example.com/main:1"}}}
	case configResource:
		o["apiVersion"], o["kind"] = "v1", "ConfigMap"
		o["data"] = map[string]any{"text": randomText(random)}
	default:
		o["apiVersion"], o["kind"] = group+"/v1", "Widget"
		o["spec"] = map[string]any{"size": random.Int64(), "text": randomText(random), "parts": map[string]any{"a": "1", "b": "2"}}
	}
	return &unstructured.Unstructured{Object: o}
}

func randomPatch(random *rand.Rand) []byte {
	color := "null"
	if c := randomColor(random); c != nil {
		color = fmt.Sprintf("%q", c)
	}
	return fmt.Appendf(nil, `{"metadata":{"labels":{"color":%s},"annotations":{"n":"%d","text":%q}}}`, color, random.Int(), randomText(random))
}

// newObject returns an empty object of a pointer type.
func newObject[T tidings.Object]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}
