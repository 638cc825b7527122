package stories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// world is the cluster in which the scenes play.
type world struct {
	ctx       context.Context
	config    *rest.Config
	client    kubernetes.Interface
	dynamic   dynamic.Interface
	nodes     *nodes
	load      load
	namespace string // of the current scene
}

func newWorld(ctx context.Context, config *rest.Config) (*world, error) {
	w := &world{ctx: ctx, config: config}
	var err error
	if w.client, err = kubernetes.NewForConfig(as(config, "kubectl")); err != nil {
		return nil, err
	}
	if w.dynamic, err = dynamic.NewForConfig(as(config, "kubectl")); err != nil {
		return nil, err
	}
	if w.nodes, err = newNodes(ctx, config); err != nil {
		return nil, err
	}
	for _, name := range nodeNames {
		if _, err := w.client.CoreV1().Nodes().Create(ctx,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *world) createNamespace() error {
	_, err := w.client.CoreV1().Namespaces().Create(w.ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, metav1.CreateOptions{})
	return err
}

// patience is how long a scene may take to get somewhere.
const patience = time.Minute

var errVain = errors.New("waited in vain")

// until waits for a state of the cluster; nothing tells when it is there.
func (w *world) until(what string, is func() (bool, error)) error {
	err := wait.PollUntilContextTimeout(w.ctx, 50*time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return is() })
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errVain, what, err)
	}
	return nil
}

// podSpec is that of a pod with one container.
func podSpec(image string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}}
}

func labels(app string) map[string]string { return map[string]string{"app": app} }

func template(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels(app)}, Spec: podSpec(image)}
}

// deploy creates a Deployment.
func (w *world) deploy(name string, replicas int32, image string, edit ...func(*appsv1.Deployment)) error {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels(name)}, Template: template(name, image),
	}}
	for _, e := range edit {
		e(d)
	}
	_, err := w.client.AppsV1().Deployments(w.namespace).Create(w.ctx, d,
		metav1.CreateOptions{FieldManager: "kubectl-create"})
	return err
}

// probed gives a Deployment a readiness probe.
func probed(d *appsv1.Deployment) {
	d.Spec.Template.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready",
			Port: intstr.FromInt32(8080)}}}
}

// setImage is kubectl set image.
func (w *world) setImage(name, image string) error {
	return w.patch("kubectl-set", gvr("apps", "deployments"), name,
		fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":%q}]}}}}`, image))
}

func gvr(group, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
}

// patch patches an object of the scene's namespace: lists of built-in kinds by their keys.
func (w *world) patch(manager string, resource schema.GroupVersionResource, name, patch string, sub ...string) error {
	kind := types.StrategicMergePatchType
	if resource.Group == "example.com" {
		kind = types.MergePatchType
	}
	_, err := w.dynamic.Resource(resource).Namespace(w.namespace).Patch(w.ctx, name, kind, []byte(patch),
		metav1.PatchOptions{FieldManager: manager}, sub...)
	return err
}

// create creates an object from JSON; one of a new custom resource may take a moment to be accepted.
func (w *world) create(manager string, resource schema.GroupVersionResource, text string) error {
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &o.Object); err != nil {
		return err
	}
	var objects dynamic.ResourceInterface = w.dynamic.Resource(resource)
	if resource.Resource != "customresourcedefinitions" && resource.Resource != "nodes" {
		objects = w.dynamic.Resource(resource).Namespace(w.namespace)
	}
	return w.until("create "+text, func() (bool, error) {
		_, err := objects.Create(w.ctx, o, metav1.CreateOptions{FieldManager: manager})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// rolledOut waits for the end of a rollout.
func (w *world) rolledOut(name string) error {
	return w.until("rollout of "+name, func() (bool, error) {
		d, err := w.client.AppsV1().Deployments(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		want, has := *d.Spec.Replicas, d.Status
		return has.ObservedGeneration == d.Generation && has.Replicas == want && has.UpdatedReplicas == want &&
			has.AvailableReplicas == want && ptr.Deref(has.TerminatingReplicas, 0) == 0, nil
	})
}
