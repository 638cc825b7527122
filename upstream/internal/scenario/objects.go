package scenario

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// template is the pod template of an app.
func template(app, image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels(app)},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](0), // there is no kubelet to stop them
			Containers:                    []corev1.Container{{Name: "main", Image: image}},
		},
	}
}

func labels(app string) map[string]string { return map[string]string{"app": app} }

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels(app)}
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector(name), Template: template(name, "image:1")},
	}
}

func replicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector(name), Template: template(name, "image:1")},
	}
}

func replicationController(name string, replicas int32) *corev1.ReplicationController {
	pods := template(name, "image:1")
	return &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ReplicationControllerSpec{Replicas: &replicas, Selector: labels(name), Template: &pods},
	}
}

func job(name string, completions, parallelism int32) *batchv1.Job {
	pods := template(name, "image:1")
	pods.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       batchv1.JobSpec{Completions: &completions, Parallelism: &parallelism, Template: pods},
	}
}

func service(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Selector: labels(name), Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}
}

// ownedBy returns a config map that the garbage collector deletes with its owner.
func ownedBy(name string, owner *appsv1.Deployment) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: owner.Name, UID: owner.UID}},
	}}
}
