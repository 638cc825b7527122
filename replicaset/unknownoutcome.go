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

// unknownOutcomes remembers the owners with a failed write whose outcome is unknown, for example
// because the connection broke or the write timed out. Their pods are read from the server before
// they are counted again, because neither a response nor the cache may show the result of the
// write.
type unknownOutcomes struct {
	mu     sync.Mutex
	owners map[object.Key]struct{}
}

// add adds the owner if the error of its write leaves the outcome unknown.
func (d *unknownOutcomes) add(owner object.Key, err error) {
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

func (d *unknownOutcomes) has(owner object.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.owners[owner]
	return ok
}

func (d *unknownOutcomes) forget(owner object.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.owners, owner)
}

// outcomeUnknown reports whether a write that failed with err may have happened nevertheless. A
// response with a status code below 500 means that it has not.
func outcomeUnknown(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	code := answer.Status().Code
	return code >= http.StatusInternalServerError || code == 0
}

// unanswered reports whether there was no response from the server.
func unanswered(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer)
}

const (
	// requeueNow requeues an owner immediately: the gate blocks it until the cache has caught up.
	requeueNow = time.Millisecond
	// unansweredRetry is the interval for asking an unresponsive server about an owner in doubt. It is constant, so
	// that a long outage is not followed by a long wait.
	unansweredRetry = time.Second
)

// resolveUnknownOutcome reads the owner's pods from the server and reports those that the cache
// lacks as writes, which keeps the owner from being reconciled and scaled before the cache has
// them. It returns the time after which to reconcile the owner again: 0 if the cache has them
// already, so that the owner need not wait.
func (e *engine[O]) resolveUnknownOutcome(ctx context.Context, owner O, want spec) (wait time.Duration, err error) {
	listed, err := e.listPods(ctx, owner, want)
	if err == nil {
		err = e.explainMissing(ctx, owner, want, listed)
	}
	switch {
	case err != nil && unanswered(err) && ctx.Err() == nil:
		return unansweredRetry, nil // the failed write has been reported, and the informers report the outage
	case err != nil:
		return 0, fmt.Errorf("the outcome of an earlier write is unknown, and the pods cannot be read: %w", err)
	}
	for _, p := range listed {
		e.noteUncached(ctx, owner, p)
	}
	e.unknownOutcomes.forget(object.KeyOf(owner))
	if ok, _ := e.expectations.fulfilled(object.KeyOf(owner), owner.GetUID()); !ok {
		return requeueNow, nil
	}
	return 0, nil
}

// listPods lists the pods that match the selector from the server.
func (e *engine[O]) listPods(ctx context.Context, owner O, want spec) (map[object.Key]*corev1.Pod, error) {
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

// explainMissing finds out what happened to pods that are in the cache but not in the list: they
// are gone, or no longer match the selector, in which case the cache has yet to show their new
// labels.
func (e *engine[O]) explainMissing(ctx context.Context, owner O, want spec, listed map[object.Key]*corev1.Pod) error {
	var missing []*corev1.Pod
	for p := range e.byOwner.All(string(owner.GetUID())) {
		if found := listed[object.KeyOf(p)]; want.selector.Matches(labels.Set(p.Labels)) && (found == nil || found.UID != p.UID) {
			missing = append(missing, p)
		}
	}
	return inParallel(len(missing), func(i int) error {
		switch found, err := e.lookUp(ctx, missing[i]); {
		case err != nil:
			return err
		case found == nil || found.DeletionTimestamp != nil:
			e.noteDeletion(ctx, owner, missing[i])
		default:
			e.noteUncached(ctx, owner, found)
		}
		return nil
	})
}

// noteUncached records the state of a pod that is or was the owner's, unless the cache has it.
func (e *engine[O]) noteUncached(ctx context.Context, owner O, p *corev1.Pod) {
	held, ok := e.pods.Get(object.KeyOf(p))
	switch {
	case ok && held.UID == p.UID && !object.OlderResourceVersion(held.ResourceVersion, p.ResourceVersion):
	case metav1.IsControlledBy(p, owner), ok && metav1.IsControlledBy(held, owner):
		e.noteWrite(ctx, owner, p)
	}
}

// noteWrite records a state of a pod from the server, so that the owner waits for the cache to show it.
func (e *engine[O]) noteWrite(ctx context.Context, owner O, p *corev1.Pod) {
	e.expectations.created(object.KeyOf(owner), owner.GetUID(), p)
	controller.Wrote(ctx, e.pods, p)
}

// noteDeletion records that a pod is gone from the server, or being deleted there, so that the
// owner waits for the cache to show that.
func (e *engine[O]) noteDeletion(ctx context.Context, owner O, p *corev1.Pod) {
	e.expectations.deleted(object.KeyOf(owner), owner.GetUID(), p)
	controller.Deleted(ctx, e.pods, p)
}
