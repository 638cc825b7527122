package replicaset

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tidings/tidings/object"
)

// Reasons of events and of the failure condition.
const (
	reasonCreated      = "SuccessfulCreate"
	reasonCreateFailed = "FailedCreate"
	reasonDeleted      = "SuccessfulDelete"
	reasonDeleteFailed = "FailedDelete"
)

// scaleResult is the result of scaling.
type scaleResult struct {
	active      []*corev1.Pod // the replicas afterwards
	terminating int           // the number of deleted pods that terminate gracefully
	attempted   bool          // whether scale was called; otherwise the number of replicas may be wrong
	reason      string        // the reason for err in events and conditions
	err         error
}

// scale creates or deletes pods to reach the desired number.
func (e *engine[O]) scale(ctx context.Context, owner O, want spec, active []*corev1.Pod) scaleResult {
	switch missing := want.replicas - len(active); {
	case missing > 0:
		return e.scaleUp(ctx, owner, want, active, min(missing, e.burst))
	case missing < 0:
		return e.scaleDown(ctx, owner, active, min(-missing, e.burst))
	default:
		return scaleResult{active: active}
	}
}

func (e *engine[O]) scaleUp(ctx context.Context, owner O, want spec, active []*corev1.Pod, n int) scaleResult {
	pod := e.podFor(owner, want.template)
	var mu sync.Mutex
	var created []*corev1.Pod
	err := slowStart(n, func() error {
		p, err := e.create(ctx, owner, *pod)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		created = append(created, p)
		return nil
	})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		err = nil // nothing can be created in the namespace any more, and the owner will be deleted
	}
	return scaleResult{active: slices.Concat(active, created), reason: reasonCreateFailed, err: err}
}

// slowStart calls fn n times, in batches of 1, 2, 4 … concurrent calls. It stops after a batch with a failed call
// and returns the error: what rejects one pod is likely to reject hundreds.
func slowStart(n int, fn func() error) error {
	for batch := 1; n > 0; batch *= 2 {
		size := min(batch, n)
		if err := inParallel(size, func(int) error { return fn() }); err != nil {
			return err
		}
		n -= size
	}
	return nil
}

// inParallel calls fn for 0 … n-1 concurrently, waits for all calls, and returns the first error.
func inParallel(n int, fn func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = fn(i) })
	}
	wg.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}

// podFor returns a new pod from the template.
func (e *engine[O]) podFor(owner O, template *corev1.PodTemplateSpec) *corev1.Pod {
	t := template.DeepCopy()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: namePrefix(owner.GetName()), Namespace: owner.GetNamespace(),
			Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, e.kind.GroupVersionKind)},
		},
		Spec: t.Spec,
	}
}

// namePrefix returns the prefix for names of an owner's pods: its own name, with a dash if that makes valid names.
func namePrefix(owner string) string {
	if prefix := owner + "-"; len(validation.IsDNS1123Subdomain(prefix+"x")) == 0 {
		return prefix
	}
	return owner
}

// create creates the pod. It is passed by value because clients write to the TypeMeta of the object
// that they encode, while several calls share the rest.
func (e *engine[O]) create(ctx context.Context, owner O, pod corev1.Pod) (*corev1.Pod, error) {
	created, err := e.client.CoreV1().Pods(pod.Namespace).Create(ctx, &pod, metav1.CreateOptions{})
	if err != nil {
		e.unknownOutcomes.add(object.KeyOf(owner), err)
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			e.event(owner, corev1.EventTypeWarning, reasonCreateFailed, "Error creating: %v", err)
		}
		return nil, err
	}
	e.noteWrite(ctx, owner, created)
	e.event(owner, corev1.EventTypeNormal, reasonCreated, "Created pod: %s", created.Name)
	return created, nil
}

func (e *engine[O]) scaleDown(ctx context.Context, owner O, active []*corev1.Pod, n int) scaleResult {
	chosen := podsToDelete(active, e.related(owner, active), n, time.Now())
	var mu sync.Mutex
	gone := make(map[*corev1.Pod]bool, len(chosen))
	err := inParallel(len(chosen), func(i int) error {
		if err := e.delete(ctx, owner, chosen[i]); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		gone[chosen[i]] = true
		return nil
	})
	result := scaleResult{reason: reasonDeleteFailed, err: err}
	for _, p := range active {
		switch {
		case !gone[p]:
			result.active = append(result.active, p)
		case p.Spec.NodeName != "": // a pod without a kubelet is gone immediately
			result.terminating++
		}
	}
	return result
}

// delete deletes the pod, provided that it still has the same uid. If it is gone already, that
// counts as deleted. A conflict can mean that another pod has its name by now, but also that the
// pod exists and was changed during the call.
func (e *engine[O]) delete(ctx context.Context, owner O, p *corev1.Pod) error {
	err := e.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: uidPrecondition(p)})
	switch {
	case err == nil:
		e.noteDeletion(ctx, owner, p)
		e.event(owner, corev1.EventTypeNormal, reasonDeleted, "Deleted pod: %s", p.Name)
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err) && e.isGoneOrTerminating(ctx, p):
		e.noteDeletion(ctx, owner, p)
		return nil
	default:
		e.unknownOutcomes.add(object.KeyOf(owner), err)
		e.event(owner, corev1.EventTypeWarning, reasonDeleteFailed, "Error deleting: %v", err)
		return fmt.Errorf("cannot delete pod %s: %w", p.Name, err)
	}
}

// uidPrecondition returns preconditions that protect another pod with the same name. Pods of fake
// clients may have no uid.
func uidPrecondition(p *corev1.Pod) *metav1.Preconditions {
	if p.UID == "" {
		return nil
	}
	return &metav1.Preconditions{UID: &p.UID}
}

// event records an event about the owner, if there is a recorder.
func (e *engine[O]) event(owner O, eventType, reason, format string, args ...any) {
	if e.events != nil {
		e.events.Eventf(owner, eventType, reason, format, args...)
	}
}
