package conformance

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	appsv1apply "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const letters = "bcdfghjklmnpqrstvwxz2456789"

// randomSuffix returns a suffix that makes the names of a run unique.
func randomSuffix() string {
	b := make([]byte, 8)
	for i := range b {
		b[i] = letters[rand.IntN(len(letters))]
	}
	return string(b)
}

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	applyMine  = metav1.ApplyOptions{FieldManager: "conformance"}
)

// checkClients writes and reads with each of client-go's clients, in protobuf and in JSON.
func checkClients(t *testing.T, config *rest.Config) {
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := "conformance-clients-" + randomSuffix()
	_, err = typed.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), eventPatience)
		defer cancel()
		if err := typed.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		c := rest.CopyConfig(config)
		c.ContentType, c.AcceptContentTypes = contentType, contentType+",application/json"
		t.Run("typed "+contentType, func(t *testing.T) { checkTyped(t, kubernetes.NewForConfigOrDie(c), namespace) })
		t.Run("metadata "+contentType, func(t *testing.T) { checkMetadata(t, metadata.NewForConfigOrDie(c), typed, namespace) })
	}
	t.Run("dynamic", func(t *testing.T) { checkDynamic(t, dynamic.NewForConfigOrDie(config), namespace) })
	t.Run("discovery", func(t *testing.T) { checkDiscovery(t, discovery.NewDiscoveryClientForConfigOrDie(config)) })
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkTyped creates, changes and deletes a config map, and watches it.
func checkTyped(t *testing.T, client kubernetes.Interface, namespace string) {
	ctx, maps := t.Context(), client.CoreV1().ConfigMaps(namespace)
	w, err := maps.Watch(ctx, metav1.ListOptions{})
	ok(t, err)
	defer w.Stop()
	o, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "typed-"}, Data: map[string]string{"a": "1"}}, metav1.CreateOptions{})
	ok(t, err)
	expectEvent(t, w, watch.Added, o)

	stale := o.DeepCopy()
	o.Data["a"] = "2"
	o, err = maps.Update(ctx, o, metav1.UpdateOptions{})
	ok(t, err)
	expectEvent(t, w, watch.Modified, o)
	if _, err := maps.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a stale update: %v", err)
	}
	o, err = maps.Patch(ctx, o.Name, types.StrategicMergePatchType, []byte(`{"data":{"b":"3"}}`), metav1.PatchOptions{})
	ok(t, err)
	expectEvent(t, w, watch.Modified, o)
	o, err = maps.Apply(ctx, corev1apply.ConfigMap(o.Name, namespace).WithData(map[string]string{"c": "4"}), applyMine)
	ok(t, err)
	expectEvent(t, w, watch.Modified, o)
	if len(o.Data) != 3 {
		t.Errorf("data after all writes: %v", o.Data)
	}
	ok(t, maps.Delete(ctx, o.Name, *metav1.NewPreconditionDeleteOptions(string(o.UID))))
	expectEvent(t, w, watch.Deleted, nil)
	if _, err := maps.Get(ctx, o.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a deleted object: %v", err)
	}
	checkDeployment(t, client, namespace)
}

// checkDeployment uses the subresources and deletes a collection.
func checkDeployment(t *testing.T, client kubernetes.Interface, namespace string) {
	ctx, deployments := t.Context(), client.AppsV1().Deployments(namespace)
	name := "typed-" + randomSuffix()
	labels := map[string]string{"name": name}
	d, err := deployments.Apply(ctx, appsv1apply.Deployment(name, namespace).WithLabels(labels).WithSpec(appsv1apply.DeploymentSpec().
		WithReplicas(1).WithSelector(metav1apply.LabelSelector().WithMatchLabels(labels)).WithTemplate(corev1apply.PodTemplateSpec().
		WithLabels(labels).WithSpec(corev1apply.PodSpec().WithContainers(corev1apply.Container().WithName("c").WithImage("i"))))), applyMine)
	ok(t, err)
	scale, err := deployments.GetScale(ctx, name, metav1.GetOptions{})
	ok(t, err)
	scale.Spec.Replicas = 3
	_, err = deployments.UpdateScale(ctx, name, scale, metav1.UpdateOptions{})
	ok(t, err)
	d.ResourceVersion, d.Status.Replicas, d.Spec.Paused = "", 2, true
	d, err = deployments.UpdateStatus(ctx, d, metav1.UpdateOptions{})
	ok(t, err)
	if d.Generation != 2 || *d.Spec.Replicas != 3 || d.Spec.Paused || d.Status.Replicas != 2 {
		t.Errorf("after scale and status: %+v %+v", d.Spec, d.Status)
	}
	selector := metav1.ListOptions{LabelSelector: "name=" + name}
	ok(t, deployments.DeleteCollection(ctx, metav1.DeleteOptions{}, selector))
	list, err := deployments.List(ctx, selector)
	ok(t, err)
	if len(list.Items) != 0 {
		t.Errorf("after deletion: %v", list.Items)
	}
}

// expectEvent waits for the next event, which must have the object o.
func expectEvent(t *testing.T, w watch.Interface, kind watch.EventType, o metav1.Object) {
	t.Helper()
	timeout := time.NewTimer(eventPatience)
	defer timeout.Stop()
	for {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				t.Fatal("the watch ended")
			}
			got, isObject := e.Object.(metav1.Object)
			if isObject && got.GetName() == "kube-root-ca.crt" {
				continue // written by a controller
			}
			if e.Type != kind || !isObject || o != nil && got.GetResourceVersion() != o.GetResourceVersion() {
				t.Errorf("got %s %v, want %s %v", e.Type, e.Object, kind, o)
			}
			return
		case <-timeout.C:
			t.Fatalf("no %s event", kind)
		}
	}
}

func checkMetadata(t *testing.T, client metadata.Interface, typed kubernetes.Interface, namespace string) {
	ctx, maps := t.Context(), client.Resource(configMaps).Namespace(namespace)
	name := "metadata-" + randomSuffix()
	created, err := typed.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	ok(t, err)
	got, err := maps.Get(ctx, name, metav1.GetOptions{})
	ok(t, err)
	if got.UID != created.UID || got.ResourceVersion != created.ResourceVersion {
		t.Errorf("metadata: %v", got)
	}
	patched, err := maps.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	ok(t, err)
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "a=b", FieldSelector: "metadata.name=" + name})
	ok(t, err)
	if len(list.Items) != 1 || list.Items[0].ResourceVersion != patched.ResourceVersion {
		t.Errorf("list: %v", list.Items)
	}
	w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: patched.ResourceVersion})
	ok(t, err)
	defer w.Stop()
	ok(t, maps.Delete(ctx, name, metav1.DeleteOptions{}))
	expectEvent(t, w, watch.Deleted, nil)
}

func checkDynamic(t *testing.T, client dynamic.Interface, namespace string) {
	ctx, maps := t.Context(), client.Resource(configMaps).Namespace(namespace)
	name := "dynamic-" + randomSuffix()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"a": "1"},
	}}
	o, err := maps.Create(ctx, o, metav1.CreateOptions{})
	ok(t, err)
	ok(t, unstructured.SetNestedField(o.Object, "2", "data", "a"))
	_, err = maps.Update(ctx, o, metav1.UpdateOptions{})
	ok(t, err)
	applied := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"a": "3"},
	}}
	if _, err := maps.Apply(ctx, name, applied, applyMine); !apierrors.IsConflict(err) {
		t.Errorf("apply against an update: %v", err)
	}
	o, err = maps.Apply(ctx, name, applied, metav1.ApplyOptions{FieldManager: "conformance", Force: true})
	ok(t, err)
	if a, _, _ := unstructured.NestedString(o.Object, "data", "a"); a != "3" {
		t.Errorf("applied: %v", o)
	}
	background := metav1.DeletePropagationBackground
	ok(t, maps.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background}))
}

// checkDiscovery compares a resource in both forms of discovery.
func checkDiscovery(t *testing.T, client *discovery.DiscoveryClient) {
	for _, legacy := range []bool{false, true} {
		client.UseLegacyDiscovery = legacy
		_, lists, err := client.ServerGroupsAndResources()
		ok(t, err)
		found := map[string]metav1.APIResource{}
		for _, list := range lists {
			for _, r := range list.APIResources {
				found[list.GroupVersion+"/"+r.Name] = r
			}
		}
		if r := found["apps/v1/deployments"]; r.Kind != "Deployment" || !r.Namespaced || len(r.Verbs) != 8 || len(r.ShortNames) != 1 {
			t.Errorf("legacy=%v: deployments: %+v", legacy, r)
		}
		if r := found["apps/v1/deployments/scale"]; r.Kind != "Scale" || r.Group != "autoscaling" {
			t.Errorf("legacy=%v: scale: %+v", legacy, r)
		}
		if r := found["v1/nodes"]; r.Kind != "Node" || r.Namespaced {
			t.Errorf("legacy=%v: nodes: %+v", legacy, r)
		}
	}
	if _, err := client.ServerVersion(); err != nil {
		t.Error(err)
	}
	paths, err := client.OpenAPIV3().Paths()
	ok(t, err)
	if _, err := paths["api/v1"].Schema("application/json"); err != nil {
		t.Error(err)
	}
}
