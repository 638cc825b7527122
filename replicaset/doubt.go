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
	list, err := e.client.CoreV1().Pods(owner.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: want.selector.String()})
	switch {
	case err != nil && unanswered(err) && ctx.Err() == nil:
		return unansweredRetry, nil // the write that failed was reported, and the informers report the outage
	case err != nil:
		return 0, fmt.Errorf("the outcome of an earlier write is unknown, and the pods cannot be read: %w", err)
	}
	for i := range list.Items {
		if p := &list.Items[i]; metav1.IsControlledBy(p, owner) && !e.cached(p) {
			e.wrote(ctx, owner, p)
			wait = soon
		}
	}
	for p := range e.byOwner.All(string(owner.GetUID())) {
		if want.selector.Matches(labels.Set(p.Labels)) && !listed(list, p) {
			e.deleted(ctx, owner, p)
			wait = soon
		}
	}
	e.doubt.forget(object.KeyOf(owner))
	return wait, nil
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

// cached reports whether the cache holds this version of the pod or a newer one.
func (e *engine[O]) cached(p *corev1.Pod) bool {
	held, ok := e.pods.Get(object.KeyOf(p))
	return ok && held.UID == p.UID && !object.OlderResourceVersion(held.ResourceVersion, p.ResourceVersion)
}

func listed(list *corev1.PodList, p *corev1.Pod) bool {
	for i := range list.Items {
		if list.Items[i].UID == p.UID {
			return true
		}
	}
	return false
}
