package simulation

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

const (
	podsEach    = 8 // maximum number of pods per namespace
	parentsEach = 3 // maximum number of parents per namespace
	maxChildren = 4 // maximum number of children that a parent wants
	// maxKeys is the maximum number of changing objects in a view, including children that were created twice because
	// a response was lost.
	maxKeys = 100
)

var (
	namespaces = []string{"a", "b", "c"}
	colors     = []string{"red", "green", "blue"}

	podResource    = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	configResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// world is the content of the server, and writes it from outside: pods, and parents, which are ConfigMaps that say how
// many children they want and with what value. The writes bypass all faults.
type world struct {
	server     *tidingstest.Server
	random     *rand.Rand
	writes     int
	staticPods int            // number of pods that nobody changes
	dummy      *corev1.Secret // nobody watches it
}

func newWorld(s *tidingstest.Server, random *rand.Rand) *world {
	return &world{server: s, random: random, dummy: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "z", Name: "dummy"}}}
}

// load creates so many pods that a start from a file continues with a watch rather than a list.
func (w *world) load() {
	const pods = 150
	for ; w.staticPods < pods; w.staticPods++ {
		p := w.newPod(namespaces[w.staticPods%len(namespaces)])
		p.Name = fmt.Sprint("ballast-", w.staticPods)
		w.server.Create(p)
	}
}

// keys returns the maximum number of objects in a view.
func (w *world) keys() int { return maxKeys + w.staticPods }

// fill creates the first objects.
func (w *world) fill() {
	w.server.Create(w.dummy)
	for range 40 {
		w.write()
	}
}

// count increases the server's version by one.
func (w *world) count() { w.server.Update(w.dummy) }

// write makes the next write of the schedule, and returns a description of it.
func (w *world) write() string {
	w.writes++
	namespace := namespaces[w.random.IntN(len(namespaces))]
	remove := w.random.IntN(5) == 0
	if w.random.IntN(3) == 0 {
		return w.put(w.newParent(namespace), configResource, remove)
	}
	return w.put(w.newPod(namespace), podResource, remove)
}

// put deletes, updates or creates an object.
func (w *world) put(o object.Object, resource schema.GroupVersionResource, remove bool) string {
	key := object.KeyOf(o)
	_, exists := w.server.Versions(resource)[key]
	switch {
	case remove && exists:
		w.server.Delete(o)
		return fmt.Sprint("delete ", resource.Resource, key)
	case exists:
		w.server.Update(o)
	default:
		w.server.Create(o)
	}
	return fmt.Sprint("write ", resource.Resource, key, o.GetLabels(), o.GetAnnotations())
}

// newPod returns a state of one of the pods, which shares parts with others.
func (w *world) newPod(namespace string) *corev1.Pod {
	name := fmt.Sprint("pod-", w.random.IntN(podsEach))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels:      map[string]string{colorLabel: colors[w.random.IntN(len(colors))], "app": name},
		Annotations: map[string]string{"write": strconv.Itoa(w.writes)},
	}}
	p.Spec.NodeName = fmt.Sprint("node-", w.random.IntN(3))
	for i := range 1 + w.random.IntN(2) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: fmt.Sprint("c", i), Image: "registry.example/app:" + strconv.Itoa(w.random.IntN(3)),
			Args: []string{"--padding", strings.Repeat("x", w.random.IntN(300))},
		})
	}
	p.Status.Phase = []corev1.PodPhase{corev1.PodPending, corev1.PodRunning}[w.random.IntN(2)]
	return p
}

// colorLabel is a label of pods.
const colorLabel = "color"

// Labels and annotations of parents and children.
const (
	roleLabel         = "role"  // parent or child
	parentLabel       = "of"    // a child's parent
	valueAnnotation   = "value" // what children inherit from their parent
	wantAnnotation    = "want"  // how many children a parent wants
	appliedAnnotation = "seen"  // the value that the controller has applied
)

func (w *world) newParent(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: fmt.Sprint("parent-", w.random.IntN(parentsEach)),
		Labels: map[string]string{roleLabel: "parent"},
		Annotations: map[string]string{
			valueAnnotation: strconv.Itoa(w.writes), wantAnnotation: strconv.Itoa(w.random.IntN(maxChildren + 1)),
		},
	}}
}

// scope is the scope of a view.
type scope struct {
	resource   schema.GroupVersionResource
	namespaces []string // empty for all
	selector   string
}

// objects returns the server's objects in the scope.
func (s scope) objects(server *tidingstest.Server) map[object.Key]object.Object {
	selector, err := labels.Parse(s.selector)
	if err != nil {
		panic(err) // cannot happen for a constant
	}
	all := map[object.Key]object.Object{}
	for _, o := range server.Objects(s.resource) {
		if s.has(o.GetNamespace()) && selector.Matches(labels.Set(o.GetLabels())) {
			all[object.KeyOf(o)] = o
		}
	}
	return all
}

func (s scope) has(namespace string) bool {
	for _, n := range s.namespaces {
		if n == namespace {
			return true
		}
	}
	return len(s.namespaces) == 0
}
