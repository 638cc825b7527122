package main

import (
	"fmt"
	"math/rand/v2"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/tidingstest"
)

// newCluster starts a server with a typical mix of objects, and returns its address.
func newCluster(t testing.TB, pods int) (host string) {
	t.Helper()
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{Loopback: true, TLS: true, HTTP2: true})
	for name, count := range map[corpus.Name]int{
		corpus.FewReplicas: pods, corpus.Events: pods, corpus.ConfigMaps: pods / 5, corpus.Nodes: pods / 20, corpus.Leases: pods / 10,
	} {
		objects, err := name.Make(max(1, count))
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range objects {
			server.Create(obj)
		}
		if name == corpus.FewReplicas {
			loadOwners(server, objects)
		}
	}
	return server.Config().Host
}

// loadOwners creates what pods usually come with: a Deployment for every fifth, with three
// ReplicaSets and an EndpointSlice, and a Secret.
func loadOwners(server *tidingstest.Server, pods []corpus.Object) {
	random := rand.New(rand.NewPCG(1, 1))
	for i := 0; i < len(pods); i += 5 {
		pod := pods[i].(*corev1.Pod)
		meta := func(name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: pod.Namespace, Name: name, Labels: pod.Labels, Annotations: map[string]string{"deployment.kubernetes.io/revision": "3"}}
		}
		name := fmt.Sprintf("web-%d", i)
		template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: *pod.Spec.DeepCopy()}
		selector := &metav1.LabelSelector{MatchLabels: pod.Labels}
		server.Create(&appsv1.Deployment{
			ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](5), Selector: selector, Template: template},
			Status: appsv1.DeploymentStatus{Replicas: 5, AvailableReplicas: 5},
		})
		for revision := range 3 {
			server.Create(&appsv1.ReplicaSet{
				ObjectMeta: meta(fmt.Sprintf("%s-%d", name, revision)), Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: *template.DeepCopy()},
			})
		}
		server.Create(endpoints(meta(name), pods[i:min(i+5, len(pods))]))
		data := make([]byte, 600)
		for at := range data {
			data[at] = byte(random.Uint32())
		}
		server.Create(&corev1.Secret{ObjectMeta: meta(name), Data: map[string][]byte{"token": data}})
	}
}

func endpoints(meta metav1.ObjectMeta, pods []corpus.Object) tidings.Object {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](8080)}}}
	for _, pod := range pods {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{pod.(*corev1.Pod).Status.PodIP}, NodeName: &pod.(*corev1.Pod).Spec.NodeName,
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUID()},
		})
	}
	return slice
}
