package measure

import (
	"reflect"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// builtinKinds returns the kinds that client-go's typed informers decode from protobuf: those of the API's stable
// versions.
func builtinKinds() map[schema.GroupVersionKind]kind {
	m := map[schema.GroupVersionKind]kind{}
	add[admissionregistrationv1.MutatingAdmissionPolicy](m, admissionregistrationv1.SchemeGroupVersion)
	add[admissionregistrationv1.MutatingAdmissionPolicyBinding](m, admissionregistrationv1.SchemeGroupVersion)
	add[admissionregistrationv1.MutatingWebhookConfiguration](m, admissionregistrationv1.SchemeGroupVersion)
	add[admissionregistrationv1.ValidatingAdmissionPolicy](m, admissionregistrationv1.SchemeGroupVersion)
	add[admissionregistrationv1.ValidatingAdmissionPolicyBinding](m, admissionregistrationv1.SchemeGroupVersion)
	add[admissionregistrationv1.ValidatingWebhookConfiguration](m, admissionregistrationv1.SchemeGroupVersion)
	add[appsv1.ControllerRevision](m, appsv1.SchemeGroupVersion)
	add[appsv1.DaemonSet](m, appsv1.SchemeGroupVersion)
	add[appsv1.Deployment](m, appsv1.SchemeGroupVersion)
	add[appsv1.ReplicaSet](m, appsv1.SchemeGroupVersion)
	add[appsv1.StatefulSet](m, appsv1.SchemeGroupVersion)
	add[autoscalingv1.HorizontalPodAutoscaler](m, autoscalingv1.SchemeGroupVersion)
	add[autoscalingv2.HorizontalPodAutoscaler](m, autoscalingv2.SchemeGroupVersion)
	add[batchv1.CronJob](m, batchv1.SchemeGroupVersion)
	add[batchv1.Job](m, batchv1.SchemeGroupVersion)
	add[certificatesv1.CertificateSigningRequest](m, certificatesv1.SchemeGroupVersion)
	add[coordinationv1.Lease](m, coordinationv1.SchemeGroupVersion)
	add[corev1.ComponentStatus](m, corev1.SchemeGroupVersion)
	add[corev1.ConfigMap](m, corev1.SchemeGroupVersion)
	//lint:ignore SA1019 clusters have them, and controllers cache them
	add[corev1.Endpoints](m, corev1.SchemeGroupVersion)
	add[corev1.Event](m, corev1.SchemeGroupVersion)
	add[corev1.LimitRange](m, corev1.SchemeGroupVersion)
	add[corev1.Namespace](m, corev1.SchemeGroupVersion)
	add[corev1.Node](m, corev1.SchemeGroupVersion)
	add[corev1.PersistentVolume](m, corev1.SchemeGroupVersion)
	add[corev1.PersistentVolumeClaim](m, corev1.SchemeGroupVersion)
	add[corev1.Pod](m, corev1.SchemeGroupVersion)
	add[corev1.PodTemplate](m, corev1.SchemeGroupVersion)
	add[corev1.ReplicationController](m, corev1.SchemeGroupVersion)
	add[corev1.ResourceQuota](m, corev1.SchemeGroupVersion)
	add[corev1.Secret](m, corev1.SchemeGroupVersion)
	add[corev1.Service](m, corev1.SchemeGroupVersion)
	add[corev1.ServiceAccount](m, corev1.SchemeGroupVersion)
	add[discoveryv1.EndpointSlice](m, discoveryv1.SchemeGroupVersion)
	add[eventsv1.Event](m, eventsv1.SchemeGroupVersion)
	add[flowcontrolv1.FlowSchema](m, flowcontrolv1.SchemeGroupVersion)
	add[flowcontrolv1.PriorityLevelConfiguration](m, flowcontrolv1.SchemeGroupVersion)
	add[networkingv1.IPAddress](m, networkingv1.SchemeGroupVersion)
	add[networkingv1.Ingress](m, networkingv1.SchemeGroupVersion)
	add[networkingv1.IngressClass](m, networkingv1.SchemeGroupVersion)
	add[networkingv1.NetworkPolicy](m, networkingv1.SchemeGroupVersion)
	add[networkingv1.ServiceCIDR](m, networkingv1.SchemeGroupVersion)
	add[nodev1.RuntimeClass](m, nodev1.SchemeGroupVersion)
	add[policyv1.PodDisruptionBudget](m, policyv1.SchemeGroupVersion)
	add[rbacv1.ClusterRole](m, rbacv1.SchemeGroupVersion)
	add[rbacv1.ClusterRoleBinding](m, rbacv1.SchemeGroupVersion)
	add[rbacv1.Role](m, rbacv1.SchemeGroupVersion)
	add[rbacv1.RoleBinding](m, rbacv1.SchemeGroupVersion)
	add[resourcev1.DeviceClass](m, resourcev1.SchemeGroupVersion)
	add[resourcev1.ResourceClaim](m, resourcev1.SchemeGroupVersion)
	add[resourcev1.ResourceClaimTemplate](m, resourcev1.SchemeGroupVersion)
	add[resourcev1.ResourceSlice](m, resourcev1.SchemeGroupVersion)
	add[schedulingv1.PriorityClass](m, schedulingv1.SchemeGroupVersion)
	add[storagev1.CSIDriver](m, storagev1.SchemeGroupVersion)
	add[storagev1.CSINode](m, storagev1.SchemeGroupVersion)
	add[storagev1.CSIStorageCapacity](m, storagev1.SchemeGroupVersion)
	add[storagev1.StorageClass](m, storagev1.SchemeGroupVersion)
	add[storagev1.VolumeAttachment](m, storagev1.SchemeGroupVersion)
	add[storagev1.VolumeAttributesClass](m, storagev1.SchemeGroupVersion)
	return m
}

// add adds the kind of the Go type S, which has the same name.
func add[S any, T message[S]](m map[schema.GroupVersionKind]kind, version schema.GroupVersion) {
	m[version.WithKind(reflect.TypeFor[S]().Name())] = typedKind[S, T]()
}
