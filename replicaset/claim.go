package replicaset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/controller"
)

// claim adopts orphans that match the owner's selector, releases pods that no longer match, and
// returns the pods that the owner owns afterwards. candidates are the owner's pods and the orphans
// in its namespace.
func (e *engine[O]) claim(ctx context.Context, owner O, want spec, candidates []*corev1.Pod) ([]*corev1.Pod, error) {
	var claimed []*corev1.Pod
	var errs []error
	checkOwner := e.checkOwnerOnce(ctx, owner)
	deleting := owner.GetDeletionTimestamp() != nil
	for _, p := range candidates {
		matches := want.selector.Matches(labels.Set(p.Labels))
		owned := metav1.IsControlledBy(p, owner)
		switch {
		case owned && matches:
			claimed = append(claimed, p)
		case deleting || finished(p) || p.DeletionTimestamp != nil:
			// neither adopt nor release pods that are going away anyway
		case owned:
			errs = append(errs, e.release(ctx, owner, p))
		case matches:
			adopted, err := e.adopt(ctx, owner, p, checkOwner)
			if adopted != nil {
				claimed = append(claimed, adopted)
			}
			errs = append(errs, err)
		}
	}
	return claimed, errors.Join(errs...)
}

// checkOwnerOnce returns a function that, on its first call, reads the owner from the server, and
// returns an error unless that is the same object and not being deleted. An owner whose pods the
// garbage collector is orphaning must not adopt them again.
func (e *engine[O]) checkOwnerOnce(ctx context.Context, owner O) func() error {
	var checked bool
	var result error
	return func() error {
		if !checked {
			checked, result = true, e.checkOwner(ctx, owner)
		}
		return result
	}
}

func (e *engine[O]) checkOwner(ctx context.Context, owner O) error {
	fresh, err := e.kind.get(ctx, owner.GetNamespace(), owner.GetName())
	switch {
	case err != nil:
		return err
	case fresh.GetUID() != owner.GetUID():
		return fmt.Errorf("%s %s/%s was deleted and created again", e.kind.Kind, owner.GetNamespace(), owner.GetName())
	case fresh.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%s %s/%s is being deleted", e.kind.Kind, owner.GetNamespace(), owner.GetName())
	default:
		return nil
	}
}

// adopt makes the owner the pod's controller. If the pod is gone, it returns nil without an error.
func (e *engine[O]) adopt(ctx context.Context, owner O, p *corev1.Pod, checkOwner func() error) (*corev1.Pod, error) {
	if err := checkOwner(); err != nil {
		return nil, fmt.Errorf("cannot adopt pod %s: %w", p.Name, err)
	}
	ref := metav1.NewControllerRef(owner, e.kind.GroupVersionKind)
	adopted, err := e.patchOwners(ctx, p, []any{ref})
	if apierrors.IsNotFound(err) || mayBeOtherUID(err) && e.isGone(ctx, p) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot adopt pod %s: %w", p.Name, err)
	}
	return adopted, nil
}

// release removes the owner's reference from the pod.
func (e *engine[O]) release(ctx context.Context, owner O, p *corev1.Pod) error {
	_, err := e.patchOwners(ctx, p, []any{map[string]any{"$patch": "delete", "uid": owner.GetUID()}})
	if err == nil || apierrors.IsNotFound(err) || mayBeOtherUID(err) && e.isReleased(ctx, owner, p) {
		return nil
	}
	return fmt.Errorf("cannot release pod %s: %w", p.Name, err)
}

// isReleased reports whether the owner does not control the pod any more.
func (e *engine[O]) isReleased(ctx context.Context, owner O, p *corev1.Pod) bool {
	found, err := e.lookUp(ctx, p)
	return err == nil && (found == nil || !metav1.IsControlledBy(found, owner))
}

// mayBeOtherUID reports whether a patch may have been rejected because the pod has another uid, which is immutable.
// Other patches may be rejected with the same errors.
func mayBeOtherUID(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsConflict(err) }

// patchOwners merges owner references into the pod's, provided that the pod still has the same uid.
func (e *engine[O]) patchOwners(ctx context.Context, p *corev1.Pod, references []any) (*corev1.Pod, error) {
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID, "ownerReferences": references}}) // nothing in it can fail
	patched, err := e.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return nil, err
	}
	controller.Wrote(ctx, e.pods, patched)
	return patched, nil
}
