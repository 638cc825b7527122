package protocol

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tidings/tidings/object"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
)

// Fields returns the fields of an object that field selectors may use. An encoded object is decoded
// only for a field that cannot be found in its bytes.
func (r *ResourceType) Fields(o object.Object) fields.Fields {
	if encoded, ok := o.(Encoded); ok {
		return &lazyFields{object: encoded, resource: r}
	}
	return r.fieldSet(o)
}

func (r *ResourceType) fieldSet(o object.Object) fields.Set {
	set := kindFields(o)
	for _, path := range r.SelectableFields {
		if u, ok := o.(*unstructured.Unstructured); ok {
			set[path[1:]] = nestedText(u.Object, path)
		}
	}
	set["metadata.name"] = o.GetName()
	if r.Namespaced {
		set["metadata.namespace"] = o.GetNamespace()
	}
	return set
}

// CheckFields rejects a selector with a field that the resource does not support.
func (r *ResourceType) CheckFields(selector fields.Selector) error {
	if selector == nil {
		return nil
	}
	for _, requirement := range selector.Requirements() {
		f := requirement.Field
		ofAll := f == "metadata.name" || f == "metadata.namespace" && r.supportsNamespace()
		if !ofAll && !r.supportsField(f) {
			return r.unsupportedField(f)
		}
	}
	return nil
}

func (r *ResourceType) supportsField(name string) bool {
	if slices.Contains(r.SelectableFields, "."+name) {
		return true
	}
	_, ok := kindFields(r.New())[name]
	return ok
}

// supportsNamespace reports whether field selectors may use the namespace. Of kinds without namespaces, only those
// whose fields an API server does not declare accept it, and then nothing has one.
func (r *ResourceType) supportsNamespace() bool {
	return r.Namespaced || r.BuiltIn && len(kindFields(r.New())) == 0
}

func (r *ResourceType) unsupportedField(name string) error {
	switch empty := r.New(); {
	case r.Kind == "Job" && r.BuiltIn:
		return fmt.Errorf("field label %q not supported for Job", name)
	case !r.BuiltIn || len(kindFields(empty)) > 0:
		return fmt.Errorf("field label not supported: %s", name)
	default:
		_, _, err := runtime.DefaultMetaV1FieldSelectorConversion(name, "")
		return err
	}
}

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// kindFields returns the selectable fields specific to an object's kind.
func kindFields(o object.Object) fields.Set {
	switch o := o.(type) {
	case *corev1.Pod:
		return podFields(o)
	case *corev1.Node:
		return fields.Set{"spec.unschedulable": strconv.FormatBool(o.Spec.Unschedulable)}
	case *corev1.Namespace:
		return fields.Set{"status.phase": string(o.Status.Phase)}
	case *corev1.Secret:
		return fields.Set{"type": string(o.Type)}
	case *corev1.Service:
		return fields.Set{"spec.clusterIP": o.Spec.ClusterIP, "spec.type": string(o.Spec.Type)}
	case *corev1.ReplicationController:
		return fields.Set{"status.replicas": strconv.Itoa(int(o.Status.Replicas))}
	case *batchv1.Job:
		return fields.Set{"status.successful": strconv.Itoa(int(o.Status.Succeeded))}
	case *certificatesv1.CertificateSigningRequest:
		return fields.Set{"spec.signerName": o.Spec.SignerName}
	case *corev1.Event:
		return eventFields(o)
	case *eventsv1.Event:
		return regardingFields(o)
	default:
		return fields.Set{}
	}
}

func podFields(o *corev1.Pod) fields.Set {
	ip := o.Status.PodIP
	if len(o.Status.PodIPs) > 0 {
		ip = o.Status.PodIPs[0].IP
	}
	return fields.Set{
		"spec.nodeName":            o.Spec.NodeName,
		"spec.restartPolicy":       string(o.Spec.RestartPolicy),
		"spec.schedulerName":       o.Spec.SchedulerName,
		"spec.serviceAccountName":  o.Spec.ServiceAccountName,
		"spec.hostNetwork":         strconv.FormatBool(o.Spec.HostNetwork),
		"status.phase":             string(o.Status.Phase),
		"status.podIP":             ip,
		"status.podIPs":            ip,
		"status.nominatedNodeName": o.Status.NominatedNodeName,
	}
}

func eventFields(o *corev1.Event) fields.Set {
	source := o.Source.Component
	if source == "" {
		source = o.ReportingController
	}
	set := referenceFields("involvedObject.", o.InvolvedObject)
	set["reason"], set["reportingComponent"], set["source"], set["type"] = o.Reason, o.ReportingController, source, o.Type
	return set
}

func regardingFields(o *eventsv1.Event) fields.Set {
	set := referenceFields("regarding.", o.Regarding)
	set["reason"], set["reportingController"], set["type"] = o.Reason, o.ReportingController, o.Type
	return set
}

func referenceFields(prefix string, ref corev1.ObjectReference) fields.Set {
	return fields.Set{
		prefix + "kind":            ref.Kind,
		prefix + "namespace":       ref.Namespace,
		prefix + "name":            ref.Name,
		prefix + "uid":             string(ref.UID),
		prefix + "apiVersion":      ref.APIVersion,
		prefix + "resourceVersion": ref.ResourceVersion,
		prefix + "fieldPath":       ref.FieldPath,
	}
}

func nestedText(content map[string]any, path string) string {
	value, found, err := unstructured.NestedFieldNoCopy(content, pathSteps(path)...)
	if !found || err != nil || value == nil {
		return ""
	}
	return fmt.Sprint(value)
}
