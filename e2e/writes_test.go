package e2e

import (
	"context"
	"maps"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/internal/latewatch"
)

// late is how late caches see changes in the test below. It is longer than a write takes.
const late = 2 * time.Second

// writeClients are the clients of a namespace whose writes are tracked.
type writeClients struct {
	typed, protobuf kubernetes.Interface
	dynamic         dynamic.Interface
	metadata        metadata.Interface
	namespace       string
}

// write is one case: what exists before, and a write to it. Deployments are named "a", or "dying" with a finalizer
// and being deleted.
type write struct {
	name     string
	resource schema.GroupVersionResource
	before   func(ctx context.Context, w *writeClients) error
	write    func(ctx context.Context, w *writeClients) error
}

var (
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
	pods        = corev1.SchemeGroupVersion.WithResource("pods")
)

func newDeployment(name string, finalizers ...string) *appsv1.Deployment {
	labels := map[string]string{"app": "x"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Finalizers: finalizers},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}},
	}
}

func withDeployments(ctx context.Context, w *writeClients) error {
	c := w.typed.AppsV1().Deployments(w.namespace)
	if _, err := c.Create(ctx, newDeployment("a"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := c.Create(ctx, newDeployment("dying", "example.com/x"), metav1.CreateOptions{}); err != nil {
		return err
	}
	return c.Delete(ctx, "dying", metav1.DeleteOptions{})
}

// withPod creates a pod, which is bound to a node unless its name is "pending".
func withPod(name string) func(ctx context.Context, w *writeClients) error {
	return func(ctx context.Context, w *writeClients) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, NodeName: "n"},
		}
		if name == "pending" {
			pod.Spec.NodeName = ""
		}
		_, err := w.typed.CoreV1().Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
}

func only[T any](_ T, err error) error { return err }

func writes() []write {
	finalizer := []byte(`{"metadata":{"finalizers":null}}`)
	change := []byte(`{"metadata":{"annotations":{"changed":"yes"}}}`)
	now := int64(0)
	foreground := metav1.DeletePropagationForeground
	update := func(ctx context.Context, c kubernetes.Interface, w *writeClients, name string, change func(*appsv1.Deployment)) error {
		d, err := c.AppsV1().Deployments(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(d)
		return only(c.AppsV1().Deployments(w.namespace).Update(ctx, d, metav1.UpdateOptions{}))
	}
	apply := func(ctx context.Context, w *writeClients) error {
		a := appsapply.Deployment("a", w.namespace).WithLabels(map[string]string{"applied": "yes"})
		return only(w.typed.AppsV1().Deployments(w.namespace).Apply(ctx, a, metav1.ApplyOptions{FieldManager: "test", Force: true}))
	}
	apps := func(name string, do func(ctx context.Context, w *writeClients) error) write {
		return write{name, deployments, withDeployments, do}
	}
	return []write{
		apps("create", func(ctx context.Context, w *writeClients) error {
			return only(w.protobuf.AppsV1().Deployments(w.namespace).Create(ctx, newDeployment("new"), metav1.CreateOptions{}))
		}),
		apps("generated name", func(ctx context.Context, w *writeClients) error {
			d := newDeployment("")
			d.GenerateName = "child-"
			return only(w.typed.AppsV1().Deployments(w.namespace).Create(ctx, d, metav1.CreateOptions{}))
		}),
		apps("update", func(ctx context.Context, w *writeClients) error {
			return update(ctx, w.typed, w, "a", func(d *appsv1.Deployment) { d.Labels["more"] = "yes" })
		}),
		apps("update of nothing", func(ctx context.Context, w *writeClients) error {
			return update(ctx, w.protobuf, w, "a", func(*appsv1.Deployment) {})
		}),
		apps("apply", apply),
		apps("apply twice", func(ctx context.Context, w *writeClients) error {
			if err := apply(ctx, w); err != nil {
				return err
			}
			return apply(ctx, w)
		}),
		apps("status", func(ctx context.Context, w *writeClients) error {
			c := w.dynamic.Resource(deployments).Namespace(w.namespace)
			status := []byte(`{"status":{"replicas":7}}`)
			return only(c.Patch(ctx, "a", types.MergePatchType, status, metav1.PatchOptions{}, "status"))
		}),
		apps("metadata patch", func(ctx context.Context, w *writeClients) error {
			return only(w.metadata.Resource(deployments).Namespace(w.namespace).Patch(ctx, "a", types.MergePatchType, change, metav1.PatchOptions{}))
		}),
		apps("scale", func(ctx context.Context, w *writeClients) error {
			c := w.protobuf.AppsV1().Deployments(w.namespace)
			scale := []byte(`{"spec":{"replicas":5}}`)
			return only(c.Patch(ctx, "a", types.MergePatchType, scale, metav1.PatchOptions{}, "scale"))
		}),
		apps("delete", func(ctx context.Context, w *writeClients) error {
			return w.typed.AppsV1().Deployments(w.namespace).Delete(ctx, "a", metav1.DeleteOptions{})
		}),
		apps("delete in the foreground", func(ctx context.Context, w *writeClients) error {
			return w.protobuf.AppsV1().Deployments(w.namespace).Delete(ctx, "a", metav1.DeleteOptions{PropagationPolicy: &foreground})
		}),
		apps("delete all", func(ctx context.Context, w *writeClients) error {
			return w.protobuf.AppsV1().Deployments(w.namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=x"})
		}),
		apps("delete and create", func(ctx context.Context, w *writeClients) error {
			c := w.typed.AppsV1().Deployments(w.namespace)
			if err := c.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
				return err
			}
			return only(c.Create(ctx, newDeployment("a"), metav1.CreateOptions{}))
		}),
		apps("last finalizer, update", func(ctx context.Context, w *writeClients) error {
			return update(ctx, w.protobuf, w, "dying", func(d *appsv1.Deployment) { d.Finalizers = nil })
		}),
		apps("last finalizer, patch", func(ctx context.Context, w *writeClients) error {
			return only(w.metadata.Resource(deployments).Namespace(w.namespace).Patch(ctx, "dying", types.MergePatchType, finalizer, metav1.PatchOptions{}))
		}),
		{"pod, graceful", pods, withPod("a"), func(ctx context.Context, w *writeClients) error {
			return w.typed.CoreV1().Pods(w.namespace).Delete(ctx, "a", metav1.DeleteOptions{})
		}},
		{"pod, forced", pods, withPod("a"), func(ctx context.Context, w *writeClients) error {
			return w.protobuf.CoreV1().Pods(w.namespace).Delete(ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: &now})
		}},
		{"pod, graceful and forced", pods, withPod("a"), func(ctx context.Context, w *writeClients) error {
			if err := w.typed.CoreV1().Pods(w.namespace).Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
				return err
			}
			return w.typed.CoreV1().Pods(w.namespace).Delete(ctx, "a", metav1.DeleteOptions{GracePeriodSeconds: &now})
		}},
		{"pending pod", pods, withPod("pending"), func(ctx context.Context, w *writeClients) error {
			return w.typed.CoreV1().Pods(w.namespace).Delete(ctx, "pending", metav1.DeleteOptions{})
		}},
		{"binding", pods, withPod("pending"), func(ctx context.Context, w *writeClients) error {
			b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "pending"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
			return w.typed.CoreV1().Pods(w.namespace).Bind(ctx, b, metav1.CreateOptions{})
		}},
		{"eviction", pods, withPod("a"), func(ctx context.Context, w *writeClients) error {
			return w.protobuf.CoreV1().Pods(w.namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		}},
	}
}

// TestWritesAreSeen makes writes in reconciles of a controller whose cache is late. The next reconcile must see what
// the server held after the write.
func TestWritesAreSeen(t *testing.T) {
	cp := plane(t)
	for _, test := range writes() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			testWrite(t, cp.Config(), test)
		})
	}
}

func testWrite(t *testing.T, config *rest.Config, test write) {
	plain := clientFor(t, config)
	w := &writeClients{namespace: newNamespace(t, plain)}
	config.QPS = -1
	live := dynamicFor(t, config).Resource(test.resource).Namespace(w.namespace)
	slow := rest.CopyConfig(config)
	slow.Wrap(latewatch.Wrap(late))
	config.Wrap(controller.TrackWrites)
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType, protobuf.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	w.typed, w.protobuf, w.dynamic = clientFor(t, config), clientFor(t, protobuf), dynamicFor(t, config)
	w.metadata = metadata.NewForConfigOrDie(config)
	if err := test.before(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	cache := informer[*metav1.PartialObjectMetadata](t, startFactory(t, slow, tidings.Options{}),
		tidings.Scope{Resource: test.resource, Namespaces: []string{w.namespace}})
	want, done := map[string]string{}, make(chan map[string]string, 1)
	first := true
	c := controller.New("writes", func(ctx context.Context, _ tidings.Key) (controller.Result, error) {
		if !first {
			held := map[string]string{}
			for key, o := range cache.Snapshot().All() {
				held[key.Name] = o.ResourceVersion
			}
			done <- held
			return controller.Result{}, nil
		}
		first = false
		if err := test.write(ctx, w); err != nil {
			t.Error(err)
		}
		list, err := live.List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
		if err != nil {
			t.Error(err)
			return controller.Result{}, nil
		}
		for _, o := range list.Items {
			want[o.GetName()] = o.GetResourceVersion()
		}
		return controller.Result{RequeueAfter: time.Nanosecond}, nil
	}, controller.Options{MaxGateWait: patience})
	if err := controller.Use(c, cache); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	c.Enqueue(tidings.Key{Name: "key"})
	select {
	case held := <-done:
		if !maps.Equal(held, want) {
			t.Errorf("reconciled with %v, but the server held %v", held, want)
		}
	case <-time.After(patience):
		t.Error("no second reconcile")
	}
	if st := c.Stats(); st.GateTimeouts > 0 {
		t.Errorf("%d timeouts", st.GateTimeouts)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
