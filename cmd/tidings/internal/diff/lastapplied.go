package diff

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// hideLastApplied removes kubectl's last-applied-configuration from both states, and notes if it differs.
func (d *differ) hideLastApplied(before, after map[string]any) (cleanBefore, cleanAfter map[string]any) {
	cleanBefore, was := WithoutLastApplied(before)
	cleanAfter, is := WithoutLastApplied(after)
	if !equal(was, is) {
		d.hidden = append(d.hidden, "metadata.annotations["+corev1.LastAppliedConfigAnnotation+"]")
	}
	return cleanBefore, cleanAfter
}

// WithoutLastApplied returns the object without kubectl's last-applied-configuration annotation,
// and the value of that, or nil if there is none. If there are no other annotations, the result has
// none at all. The input is only read.
func WithoutLastApplied(object map[string]any) (clean map[string]any, lastApplied any) {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	lastApplied, ok := annotations[corev1.LastAppliedConfigAnnotation]
	if !ok {
		return object, nil
	}
	annotations, metadata, clean = maps.Clone(annotations), maps.Clone(metadata), maps.Clone(object)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	metadata["annotations"] = annotations
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	clean["metadata"] = metadata
	return clean, lastApplied
}
