package programs

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
)

// seed is the seed of all generated objects: every run gets the same.
const seed = 1

// created is the creation time of all generated objects.
var created = metav1.NewTime(time.Unix(1_760_000_000, 0))

// pods returns pods like those of a large cluster.
func pods(n int) []*corev1.Pod { return wiretest.Pods(n, seed) }

// meta returns the metadata of an object of the same workload as a pod.
func meta(kind string, pod *corev1.Pod) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: "of-" + pod.Name, UID: types.UID(kind + "-" + pod.Name),
		CreationTimestamp: created, Labels: pod.Labels, Generation: 1,
		Annotations: map[string]string{"deployment.kubernetes.io/revision": "3"}, ManagedFields: pod.ManagedFields,
	}
}

// deployments returns Deployments with templates like generated pods.
func deployments(n int) (out []*appsv1.Deployment) {
	for _, pod := range pods(n) {
		out = append(out, deployment(pod))
	}
	return out
}

func deployment(pod *corev1.Pod) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: meta("deployment", pod),
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](5), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
		Status: appsv1.DeploymentStatus{Replicas: 5, AvailableReplicas: 5},
	}
}

// companions returns what usually comes with the workload of the i-th pod.
func companions(i int, pod *corev1.Pod) []object.Object {
	ip := fmt.Sprintf("10.%d.%d.%d", 100+i>>16, i>>8&255, i&255)
	d := deployment(pod)
	out := []object.Object{
		d,
		&corev1.Service{ObjectMeta: meta("service", pod), Spec: corev1.ServiceSpec{
			Selector: pod.Labels, ClusterIP: ip, ClusterIPs: []string{ip}, Type: corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		}},
		&corev1.ConfigMap{ObjectMeta: meta("configmap", pod), Data: map[string]string{
			"settings": fmt.Sprintf("name: %s\nnode: %s\n", pod.Name, pod.Spec.NodeName),
		}},
		&corev1.Secret{
			ObjectMeta: meta("secret",
				pod), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"token": []byte(pod.UID)},
		},
		&discoveryv1.EndpointSlice{
			ObjectMeta: sliceMeta(pod), AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{{
				Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP),
			}},
			Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{pod.Status.PodIP}, NodeName: &pod.Spec.NodeName,
				Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
			}},
		},
	}
	for revision := range 3 {
		rs := &appsv1.ReplicaSet{ObjectMeta: meta("replicaset", pod), Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](0), Selector: d.Spec.Selector, Template: d.Spec.Template,
		}}
		rs.Name, rs.UID = fmt.Sprintf("%s-%d", rs.Name, revision), types.UID(fmt.Sprintf("%s-%d", rs.UID, revision))
		rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d,
			appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		out = append(out, rs)
	}
	return out
}

// sliceMeta returns the metadata of the EndpointSlice of a pod's Service.
func sliceMeta(pod *corev1.Pod) metav1.ObjectMeta {
	m := meta("endpointslice", pod)
	m.Labels = map[string]string{discoveryv1.LabelServiceName: m.Name}
	return m
}

// change makes the most frequent change of a pod: it becomes ready or unready.
func change(pod *corev1.Pod) {
	ready := &pod.Status.ContainerStatuses[0].Ready
	*ready = !*ready
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			c.Status = corev1.ConditionFalse
			if *ready {
				c.Status = corev1.ConditionTrue
			}
		}
	}
}
