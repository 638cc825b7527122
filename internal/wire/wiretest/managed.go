package wiretest

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fields is a set of fields in the notation of managedFields; a nil value is a leaf.
type fields map[string]fields

// managedFields lists the fields that the controller set at creation and those that the kubelet wrote into the status.
func managedFields(pod *corev1.Pod, w *workload, created time.Time) []metav1.ManagedFieldsEntry {
	at := created
	for _, cond := range pod.Status.Conditions {
		if cond.LastTransitionTime.After(at) {
			at = cond.LastTransitionTime.Time
		}
	}
	return []metav1.ManagedFieldsEntry{
		{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: new(metav1.NewTime(created)), FieldsType: "FieldsV1", FieldsV1: podSpecFields(pod, w)},
		{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: new(metav1.NewTime(at)), FieldsType: "FieldsV1", FieldsV1: podStatusFields(pod), Subresource: "status"},
	}
}

// podSpecFields is the controller's entry; it is the same for all pods of a template.
func podSpecFields(pod *corev1.Pod, w *workload) *metav1.FieldsV1 {
	meta := fields{
		"f:generateName":    nil,
		"f:labels":          keys(pod.Labels),
		"f:ownerReferences": {".": nil, fmt.Sprintf(`k:{"uid":%q}`, w.owner.UID): nil},
	}
	if len(pod.Annotations) > 0 {
		meta["f:annotations"] = keys(pod.Annotations)
	}
	containers := fields{}
	for i := range pod.Spec.Containers {
		containers[named("name", pod.Spec.Containers[i].Name)] = containerFields(&pod.Spec.Containers[i])
	}
	spec := fields{
		"f:containers": containers, "f:dnsPolicy": nil, "f:enableServiceLinks": nil, "f:restartPolicy": nil, "f:schedulerName": nil,
		"f:securityContext": {".": nil, "f:fsGroup": nil, "f:runAsNonRoot": nil}, "f:serviceAccount": nil, "f:serviceAccountName": nil,
		"f:terminationGracePeriodSeconds": nil,
	}
	if len(pod.Spec.Volumes) > 1 {
		spec["f:volumes"] = fields{".": nil, named("name", "config"): {".": nil, "f:configMap": {".": nil, "f:defaultMode": nil, "f:name": nil}, "f:name": nil}}
	}
	return encode(fields{"f:metadata": meta, "f:spec": spec})
}

func containerFields(c *corev1.Container) fields {
	out := fields{
		".": nil, "f:args": nil, "f:image": nil, "f:imagePullPolicy": nil, "f:name": nil, "f:terminationMessagePath": nil, "f:terminationMessagePolicy": nil,
		"f:resources": {".": nil, "f:limits": {".": nil, "f:memory": nil}, "f:requests": {".": nil, "f:cpu": nil, "f:memory": nil}},
	}
	env := fields{".": nil}
	for _, e := range c.Env {
		env[named("name", e.Name)] = fields{".": nil, "f:name": nil, "f:value": nil}
	}
	if len(c.Env) > 0 {
		out["f:env"] = env
	}
	get := fields{".": nil, "f:path": nil, "f:port": nil, "f:scheme": nil}
	if c.LivenessProbe != nil {
		out["f:livenessProbe"] = fields{".": nil, "f:failureThreshold": nil, "f:httpGet": get, "f:periodSeconds": nil}
	}
	if c.ReadinessProbe != nil {
		out["f:readinessProbe"] = fields{".": nil, "f:failureThreshold": nil, "f:httpGet": get, "f:periodSeconds": nil}
	}
	return out
}

// podStatusFields is the kubelet's entry; it contains the pod's address, so no two are the same.
func podStatusFields(pod *corev1.Pod) *metav1.FieldsV1 {
	conditions := fields{}
	for _, cond := range pod.Status.Conditions {
		if cond.Type != corev1.PodScheduled {
			conditions[named("type", string(cond.Type))] = fields{".": nil, "f:lastProbeTime": nil, "f:lastTransitionTime": nil, "f:status": nil, "f:type": nil}
		}
	}
	status := fields{
		"f:conditions": conditions, "f:containerStatuses": nil, "f:hostIP": nil, "f:hostIPs": nil, "f:phase": nil, "f:podIP": nil, "f:startTime": nil,
		"f:podIPs": {".": nil, named("ip", pod.Status.PodIP): {".": nil, "f:ip": nil}},
	}
	return encode(fields{"f:status": status})
}

func keys(m map[string]string) fields {
	out := fields{".": nil}
	for k := range m {
		out["f:"+k] = nil
	}
	return out
}

func named(key, value string) string { return fmt.Sprintf(`k:{%q:%q}`, key, value) }

// MarshalJSON writes a leaf as an empty object.
func (f fields) MarshalJSON() ([]byte, error) {
	if f == nil {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]fields(f))
}

func encode(f fields) *metav1.FieldsV1 {
	raw, err := json.Marshal(f)
	if err != nil {
		panic(err) // a tree of maps always encodes
	}
	return metav1.NewFieldsV1(string(raw))
}
