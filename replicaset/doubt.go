package replicaset

import (
	"context"
	"fmt"
	"net/http"
	"sync"

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
	status, ok := err.(apierrors.APIStatus)
	return !ok || status.Status().Code >= http.StatusInternalServerError || status.Status().Code == 0
}

// clearDoubt reads the owner's pods from the server and reports the versions that the cache lacks as writes, which keeps the
// owner from being reconciled before the cache has them. It returns whether the cache has them already.
func (e *engine[O]) clearDoubt(ctx context.Context, owner O, want spec) (clear bool, err error) {
	list, err := e.client.CoreV1().Pods(owner.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: want.selector.String()})
	if err != nil {
		return false, fmt.Errorf("the outcome of an earlier write is unknown, and the pods cannot be read: %w", err)
	}
	clear = true
	for i := range list.Items {
		if p := &list.Items[i]; metav1.IsControlledBy(p, owner) && !e.cached(p) {
			controller.Wrote(ctx, e.pods, p)
			clear = false
		}
	}
	for p := range e.byOwner.All(string(owner.GetUID())) {
		if want.selector.Matches(labels.Set(p.Labels)) && !listed(list, p) {
			controller.Deleted(ctx, e.pods, p)
			clear = false
		}
	}
	e.doubt.forget(object.KeyOf(owner))
	return clear, nil
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
