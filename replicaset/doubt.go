package replicaset

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/object"
)

// doubt remembers the owners for which a write failed in a way that does not tell whether the server has carried it out: the
// connection broke, or it timed out. Their pods are read from the server before they are counted again, because
// neither the answer nor the cache may have brought them.
type doubt struct {
	mu     sync.Mutex
	owners map[object.Key]struct{}
}

// note looks at the error of a write for the owner.
func (d *doubt) note(owner object.Key, err error) {
	if !outcomeUnknown(err) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owners == nil {
		d.owners = map[object.Key]struct{}{}
	}
	d.owners[owner] = struct{}{}
}

func (d *doubt) has(owner object.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.owners[owner]
	return ok
}

func (d *doubt) forget(owner object.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.owners, owner)
}

// outcomeUnknown reports whether a write that failed with err may have happened all the same. An answer of the server below
// 500 says that it has not.
func outcomeUnknown(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	code := answer.Status().Code
	return code >= http.StatusInternalServerError || code == 0
}

// unanswered reports whether the server has said nothing at all.
func unanswered(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer)
}

const (
	// soon reconciles an owner again at once: the gate holds it until the cache has caught up.
	soon = time.Millisecond
	// unansweredRetry is how often a server that does not answer is asked about an owner in doubt. It is steady, so
	// that a long outage is not followed by a long wait.
	unansweredRetry = time.Second
)

// clearDoubt reads the owner's pods from the server and reports what the cache lacks as writes, which keeps the
// owner from being reconciled and scaled before the cache has them. It returns when to reconcile the owner again: 0 if the
// cache has them already, and the owner need not wait.
func (e *engine[O]) clearDoubt(ctx context.Context, owner O, want spec) (wait time.Duration, err error) {
	listed, err := e.listed(ctx, owner, want)
	if err == nil {
		err = e.explainMissing(ctx, owner, want, listed)
	}
	switch {
	case err != nil && unanswered(err) && ctx.Err() == nil:
		return unansweredRetry, nil // the write that failed was reported, and the informers report the outage
	case err != nil:
		return 0, fmt.Errorf("the outcome of an earlier write is unknown, and the pods cannot be read: %w", err)
	}
	for _, p := range listed {
		e.wroteUncached(ctx, owner, p)
	}
	e.doubt.forget(object.KeyOf(owner))
	if ok, _ := e.expectations.fulfilled(object.KeyOf(owner), owner.GetUID()); !ok {
		return soon, nil
	}
	return 0, nil
}

// listed reads from the server the pods that match the selector.
func (e *engine[O]) listed(ctx context.Context, owner O, want spec) (map[object.Key]*corev1.Pod, error) {
	list, err := e.client.CoreV1().Pods(owner.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: want.selector.String()})
	if err != nil {
		return nil, err
	}
	pods := make(map[object.Key]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[object.KeyOf(&list.Items[i])] = &list.Items[i]
	}
	return pods, nil
}

// explainMissing finds out what became of the pods that the cache has and the list has not: they are gone, or no longer match the
// selector, in which case the cache has yet to show their new labels.
func (e *engine[O]) explainMissing(ctx context.Context, owner O, want spec, listed map[object.Key]*corev1.Pod) error {
	var missing []*corev1.Pod
	for p := range e.byOwner.All(string(owner.GetUID())) {
		if found := listed[object.KeyOf(p)]; want.selector.Matches(labels.Set(p.Labels)) && (found == nil || found.UID != p.UID) {
			missing = append(missing, p)
		}
	}
	return sideBySide(len(missing), func(i int) error {
		switch found, err := e.lookUp(ctx, missing[i]); {
		case err != nil:
			return err
		case found == nil || found.DeletionTimestamp != nil:
			e.deleted(ctx, owner, missing[i])
		default:
			e.wroteUncached(ctx, owner, found)
		}
		return nil
	})
}

// wroteUncached notes the state of a pod that is or was the owner's, unless the cache has it.
func (e *engine[O]) wroteUncached(ctx context.Context, owner O, p *corev1.Pod) {
	held, ok := e.pods.Get(object.KeyOf(p))
	switch {
	case ok && held.UID == p.UID && !object.OlderResourceVersion(held.ResourceVersion, p.ResourceVersion):
	case metav1.IsControlledBy(p, owner), ok && metav1.IsControlledBy(held, owner):
		e.wrote(ctx, owner, p)
	}
}

// wrote notes a state of a pod, one that the server has, and that the owner waits for the cache to show.
func (e *engine[O]) wrote(ctx context.Context, owner O, p *corev1.Pod) {
	e.expectations.created(object.KeyOf(owner), owner.GetUID(), p)
	controller.Wrote(ctx, e.pods, p)
}

// deleted notes that the server has a pod no more, or as being deleted, and that the owner waits for the cache to show it.
func (e *engine[O]) deleted(ctx context.Context, owner O, p *corev1.Pod) {
	e.expectations.deleted(object.KeyOf(owner), owner.GetUID(), p)
	controller.Deleted(ctx, e.pods, p)
}
