package rest

import (
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/internal/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// NewObject returns an empty object of a resource's kind.
func NewObject(r *api.Resource) object.Object { return r.New() }

// Received makes of an object that a client has sent what the server takes it for. The texts of a
// Secret become data, which is all that is kept, and it has a type.
func Received(o object.Object) {
	secret, ok := o.(*corev1.Secret)
	if !ok {
		return
	}
	if secret.Type == "" {
		secret.Type = corev1.SecretTypeOpaque
	}
	if len(secret.StringData) == 0 {
		return
	}
	if secret.Data == nil {
		secret.Data = make(map[string][]byte)
	}
	for key, text := range secret.StringData {
		secret.Data[key] = []byte(text)
	}
	secret.StringData = nil
}

// toStorage sets a custom object to its storage version.
func toStorage(r *api.Resource, o object.Object) {
	if !r.BuiltIn {
		o.GetObjectKind().SetGroupVersionKind(r.StorageKind())
	}
}

// prepareCreate resets what clients cannot set on creation.
func prepareCreate(r *api.Resource, o object.Object) {
	toStorage(r, o)
	if r.Status {
		clearStatus(o)
	}
	if r.Rules.Generation {
		o.SetGeneration(1)
	}
	switch o := o.(type) {
	case *corev1.Pod:
		o.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qosClass(o)}
	case *corev1.Namespace:
		prepareNamespace(o)
	case *corev1.PersistentVolume:
		o.Status.Phase = corev1.VolumePending
	case *corev1.PersistentVolumeClaim:
		o.Status.Phase = corev1.ClaimPending
	}
}

func prepareNamespace(o *corev1.Namespace) {
	o.Status.Phase = corev1.NamespaceActive
	hasKubernetes := false
	for _, f := range o.Spec.Finalizers {
		hasKubernetes = hasKubernetes || f == corev1.FinalizerKubernetes
	}
	if !hasKubernetes {
		o.Spec.Finalizers = append(o.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
	setNameLabel(o)
}

func setNameLabel(o *corev1.Namespace) {
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	o.Labels[corev1.LabelMetadataName] = o.Name
}

// prepareUpdate keeps the fields of the current object that a write to the resource or subresource cannot change.
func prepareUpdate(request Request, o, old object.Object) {
	r := request.Resource
	toStorage(r, o)
	o.SetGeneration(old.GetGeneration())
	switch request.Subresource {
	case "":
		if r.Status {
			setStatus(o, old)
		}
		if namespace, ok := o.(*corev1.Namespace); ok {
			namespace.Spec.Finalizers = old.(*corev1.Namespace).Spec.Finalizers
		}
	case "status", "approval":
		prepareStatusUpdate(r, o, old)
	case "finalize", "ephemeralcontainers", "resize":
		setStatus(o, old)
	}
	if namespace, ok := o.(*corev1.Namespace); ok {
		setNameLabel(namespace)
	}
	if r.Rules.Generation && request.Subresource != "binding" && !sameSpecification(o, old, r.Status) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
}

func prepareStatusUpdate(r *api.Resource, o, old object.Object) {
	setSpecification(o, old)
	if u, ok := o.(*unstructured.Unstructured); ok && !r.BuiltIn {
		managed, version := u.GetManagedFields(), u.GetResourceVersion()
		metadata, _ := old.(*unstructured.Unstructured).Object["metadata"].(map[string]any)
		u.Object["metadata"] = runtime.DeepCopyJSON(metadata)
		u.SetManagedFields(managed)
		u.SetResourceVersion(version)
		return
	}
	if r.Rules.StatusKeepsLabels {
		o.SetLabels(old.GetLabels())
	}
	if pod, ok := o.(*corev1.Pod); ok {
		pod.OwnerReferences = old.GetOwnerReferences()
		pod.DeletionTimestamp = nil
		if pod.Status.QOSClass == "" {
			pod.Status.QOSClass = old.(*corev1.Pod).Status.QOSClass
		}
	}
}

// gracePeriod returns the grace period of a deletion; graceful is false for objects that are deleted at once.
func gracePeriod(o object.Object, options *metav1.DeleteOptions) (seconds int64, graceful bool) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return 0, false
	}
	switch {
	case pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		return 0, true
	case options.GracePeriodSeconds != nil:
		seconds = *options.GracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	default:
		seconds = corev1.DefaultTerminationGracePeriodSeconds
	}
	if seconds < 0 {
		seconds = 1
	}
	return seconds, true
}

// qosClass derives a pod's QoS class from its containers' resources.
func qosClass(pod *corev1.Pod) corev1.PodQOSClass {
	guaranteed, any := true, false
	for _, c := range append(pod.Spec.InitContainers[:len(pod.Spec.InitContainers):len(pod.Spec.InitContainers)], pod.Spec.Containers...) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			limit, hasLimit := positive(c.Resources.Limits, name)
			request, hasRequest := positive(c.Resources.Requests, name)
			any = any || hasLimit || hasRequest
			guaranteed = guaranteed && hasLimit && (!hasRequest || limit.Cmp(request) == 0)
		}
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

func positive(list corev1.ResourceList, name corev1.ResourceName) (resource.Quantity, bool) {
	q, ok := list[name]
	return q, ok && q.Sign() > 0
}
