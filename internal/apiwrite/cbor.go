package apiwrite

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
)

// parseCBOR reads an answer in CBOR, which must be complete.
func parseCBOR(data []byte, a *Answer) {
	var content map[string]any
	if cbor.Unmarshal(data, &content) != nil {
		return
	}
	kind, _ := content["kind"].(string)
	items, listed := content["items"].([]any)
	switch {
	case kind == "Status":
		a.IsStatus = true
		reason, _ := content["reason"].(string)
		uid, _, _ := unstructured.NestedString(content, "details", "uid")
		a.Reason, a.UID = metav1.StatusReason(reason), types.UID(uid)
	case listed:
		a.IsList = true
		a.Continue, _, _ = unstructured.NestedString(content, "metadata", "continue")
		for _, item := range items {
			content, _ := item.(map[string]any)
			a.Items = append(a.Items, objectOf(content))
		}
	default:
		a.Object = objectOf(content)
		a.Object.MetadataOnly = kind == metadataKind
	}
}

// objectOf returns the metadata in an object's content.
func objectOf(content map[string]any) Object {
	u := unstructured.Unstructured{Object: content}
	finalizers, _, _ := unstructured.NestedSlice(content, "spec", "finalizers")
	return Object{
		ObjectMeta: metav1.ObjectMeta{
			Name: u.GetName(), GenerateName: u.GetGenerateName(), Namespace: u.GetNamespace(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(), Labels: u.GetLabels(),
			DeletionTimestamp: u.GetDeletionTimestamp(), DeletionGracePeriodSeconds: u.GetDeletionGracePeriodSeconds(), Finalizers: u.GetFinalizers(),
		},
		SpecFinalizers: len(finalizers),
	}
}
