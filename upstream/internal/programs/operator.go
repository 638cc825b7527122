package programs

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
)

// operatorSource is the source of a small program on controller-runtime, for want of one that does without webhooks.
//
//go:embed operator.txt
var operatorSource string

var operator = Program{
	Name: "operator", Version: "on controller-runtime", License: "Apache-2.0",
	About: fmt.Sprintf("A program of this repository on controller-runtime's manager. It keeps a ConfigMap about each of "+
		"%d Deployments, and caches %d pods. %d changes of pods, two of each Deployment, and a tenth of the ConfigMaps are "+
		"deleted.", operatorDeployments, operatorPods, operatorChanges),
	Main: ".", Packages: []string{"."}, play: playOperator, source: operatorSource,
}

const operatorDeployments, operatorPods, operatorChanges = 1_000, 5_000, 20_000

var configMapsResource = corev1.SchemeGroupVersion.WithResource("configmaps")

func playOperator(ctx context.Context, s *session) ([]string, error) {
	all, owners := pods(operatorPods), deployments(operatorDeployments)
	for _, pod := range all {
		s.server.Create(pod)
	}
	for _, d := range owners {
		s.server.Create(d)
	}
	kubeconfig, err := s.kubeconfig()
	if err != nil {
		return nil, err
	}
	if err := s.start("-kubeconfig", kubeconfig); err != nil {
		return nil, err
	}
	done := func() (bool, error) { return s.described(owners), nil }
	if err := s.await(ctx, "a ConfigMap for each Deployment", done); err != nil {
		return nil, err
	}
	if err := s.synced(); err != nil {
		return nil, err
	}
	for i := range operatorChanges {
		pod := all[i*7%len(all)]
		change(pod)
		s.server.Update(pod)
	}
	for i, obj := range s.server.Objects(configMapsResource) {
		if i%10 == 0 {
			s.server.Delete(obj)
		}
	}
	for round := range 2 {
		for _, d := range owners {
			d.Spec.Template.Spec.Containers[0].Image = fmt.Sprint("registry.example.com/app:", round)
			s.server.Update(d)
		}
	}
	err = s.await(ctx, "all ConfigMaps in their final state", done)
	return s.descriptions(), err
}

// described reports whether each Deployment has a ConfigMap that names its image.
func (s *session) described(owners []*appsv1.Deployment) bool {
	images := map[object.Key]string{}
	for _, obj := range s.server.Objects(configMapsResource) {
		images[object.KeyOf(obj)] = obj.(*corev1.ConfigMap).Data["image"]
	}
	return !slices.ContainsFunc(owners, func(d *appsv1.Deployment) bool {
		return images[object.Key{Namespace: d.Namespace, Name: "about-" + d.Name}] != d.Spec.Template.Spec.Containers[0].Image
	})
}

// descriptions returns the ConfigMaps in lines.
func (s *session) descriptions() (lines []string) {
	for _, obj := range s.server.Objects(configMapsResource) {
		owner := metav1.GetControllerOf(obj)
		if owner == nil {
			owner = &metav1.OwnerReference{}
		}
		data := obj.(*corev1.ConfigMap).Data
		lines = append(lines, fmt.Sprintf("%s of %s %s: %v", object.KeyOf(obj), owner.Kind, owner.Name, data))
	}
	slices.Sort(lines)
	return lines
}
