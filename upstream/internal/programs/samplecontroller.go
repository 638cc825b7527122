package programs

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

var sampleController = Program{
	Name: "sample-controller", Module: "k8s.io/sample-controller", Version: "v0.36.3", License: "Apache-2.0",
	About: fmt.Sprintf("It makes a Deployment for each of %d objects, while %d Deployments of others change %d times. "+
		"Two factories, one of them generated.", foos, foreignDeployments, foreignChanges),
	Main: ".", Packages: []string{"./..."}, Generated: []string{"pkg/generated/informers"},
	play: playSampleController,
}

// The sizes of the scenario. The program sends five requests a second with each of two clients, so
// there are few of its own objects.
const foos, foreignDeployments, foreignChanges = 30, 5_000, 20_000

var (
	foosVersion         = schema.GroupVersion{Group: "samplecontroller.k8s.io", Version: "v1alpha1"}
	foosResource        = foosVersion.WithResource("foos")
	deploymentsResource = appsv1.SchemeGroupVersion.WithResource("deployments")
)

func playSampleController(ctx context.Context, s *session) ([]string, error) {
	s.server.AddCustomResource(tidingstest.CustomResource{Resource: foosResource, Kind: "Foo"})
	others := deployments(foreignDeployments)
	for _, d := range others {
		s.server.Create(d)
	}
	for i := range foos {
		s.server.Create(foo(i, 1))
	}
	kubeconfig, err := s.kubeconfig()
	if err != nil {
		return nil, err
	}
	if err := s.start("-kubeconfig", kubeconfig); err != nil {
		return nil, err
	}
	err = s.await(ctx, "a Deployment for each object", func() (bool, error) {
		return len(s.owned()) == foos, nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.synced(); err != nil {
		return nil, err
	}
	s.disturbSampleController(others)
	err = s.await(ctx, "all objects in their final state", func() (bool, error) { return s.fooStates() == foos, nil })
	return s.fooLines(), err
}

// disturbSampleController deletes Deployments, scales objects, and changes the Deployments of others.
func (s *session) disturbSampleController(others []*appsv1.Deployment) {
	for i, d := range s.owned() {
		if i%3 == 0 {
			s.server.Delete(d)
			continue
		}
		d = d.DeepCopy()
		d.Status.AvailableReplicas = *d.Spec.Replicas
		s.server.Update(d)
	}
	for i := range foos {
		if i%2 == 0 {
			s.server.Update(foo(i, 3))
		}
	}
	for i := range foreignChanges {
		d := others[i*7%len(others)]
		d.Status.ObservedGeneration++
		s.server.Update(d)
	}
}

// foo returns an object of the program's own kind.
func foo(i, replicas int) *unstructured.Unstructured {
	name := fmt.Sprintf("foo-%03d", i)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": foosResource.GroupVersion().String(), "kind": "Foo",
		"metadata": map[string]any{"namespace": "default", "name": name},
		"spec":     map[string]any{"deploymentName": "of-" + name, "replicas": int64(replicas)},
	}}
}

// owned returns the Deployments that the program has made, by name.
func (s *session) owned() (out []*appsv1.Deployment) {
	for _, obj := range s.server.Objects(deploymentsResource) {
		if owner := metav1.GetControllerOf(obj); owner != nil && owner.Kind == "Foo" {
			out = append(out, obj.(*appsv1.Deployment))
		}
	}
	slices.SortFunc(out, func(a, b *appsv1.Deployment) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	return out
}

// fooStates returns the number of objects whose Deployment and status are as they should be.
func (s *session) fooStates() (done int) {
	made := map[string]*appsv1.Deployment{}
	for _, d := range s.owned() {
		made[metav1.GetControllerOf(d).Name] = d
	}
	for _, obj := range s.server.Objects(foosResource) {
		u := obj.(*unstructured.Unstructured)
		replicas, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		available, _, _ := unstructured.NestedInt64(u.Object, "status", "availableReplicas")
		d := made[u.GetName()]
		if d == nil {
			continue
		}
		if int64(ptr.Deref(d.Spec.Replicas, 0)) == replicas && int64(d.Status.AvailableReplicas) == available {
			done++
		}
	}
	return done
}

// fooLines describes the Deployments that the program has made.
func (s *session) fooLines() (lines []string) {
	for _, d := range s.owned() {
		lines = append(lines, fmt.Sprintf("deployment %s of %s: %d replicas, %v, %v, %s",
			object.KeyOf(d), metav1.GetControllerOf(d).Name, *d.Spec.Replicas,
			d.Spec.Selector.MatchLabels, d.Spec.Template.Labels, d.Spec.Template.Spec.Containers[0].Image))
	}
	for _, obj := range s.server.Objects(foosResource) {
		u := obj.(*unstructured.Unstructured)
		lines = append(lines, fmt.Sprintf("foo %s: %v, %v", object.KeyOf(u), u.Object["spec"], u.Object["status"]))
	}
	return lines
}
