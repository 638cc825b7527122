package replicaset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/object"
)

// engine reconciles owners of type O. It is safe for concurrent use by several workers.
type engine[O object.Object] struct {
	kind   kind[O]
	client kubernetes.Interface
	events record.EventRecorder // may be nil
	burst  int

	owners *tidings.SharedInformer[O]
	pods   *tidings.SharedInformer[*corev1.Pod]
	// byOwner indexes pods by the uid of their controller, and orphans by orphansOf(namespace).
	byOwner *tidings.Index[*corev1.Pod]
	// siblings indexes owners by the uid of their own controller, for finding the ReplicaSets of one Deployment.
	siblings *tidings.Index[O]

	expectations    *expectations
	unknownOutcomes unknownOutcomes
	// noTerminating is set if the server dropped terminatingReplicas from the last status, as older
	// servers do. Then that number alone is no reason to write a status; the others still have it,
	// which shows when the server keeps it.
	noTerminating atomic.Bool
}

func newEngine[O object.Object](k kind[O], owners *tidings.SharedInformer[O], pods *tidings.SharedInformer[*corev1.Pod], opts Options) *engine[O] {
	e := &engine[O]{
		kind: k, client: opts.Client, events: opts.Events, burst: opts.Burst,
		owners: owners, pods: pods, expectations: newExpectations(pods),
	}
	if e.burst == 0 {
		e.burst = defaultBurst
	}
	e.byOwner = pods.AddIndex("owner", func(p *corev1.Pod) []string {
		if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
			return []string{string(ref.UID)}
		}
		return []string{orphansOf(p.Namespace)}
	})
	e.siblings = owners.AddIndex("controller", func(o O) []string {
		if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
			return []string{string(ref.UID)}
		}
		return nil
	})
	return e
}

// orphansOf returns the value of a namespace's orphans in the index. No uid begins with a slash.
func orphansOf(namespace string) string { return "/" + namespace }

// mapPod maps a pod to its owner, and an orphan to every owner that could adopt it.
func (e *engine[O]) mapPod(p *corev1.Pod, enqueue func(object.Key)) {
	if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
		if owner, ok := e.ownerOf(p, ref); ok {
			enqueue(object.KeyOf(owner))
		}
		return
	}
	for key, owner := range e.owners.Snapshot().Namespace(p.Namespace) {
		if want, err := e.kind.spec(owner); err == nil && want.selector.Matches(labels.Set(p.Labels)) {
			enqueue(key)
		}
	}
}

// ownerOf returns the owner in a pod's controller reference, if it is of this kind and has the referenced uid.
func (e *engine[O]) ownerOf(p *corev1.Pod, ref *metav1.OwnerReference) (O, bool) {
	owner, ok := e.owners.Get(object.Key{Namespace: p.Namespace, Name: ref.Name})
	return owner, ok && ref.Kind == e.kind.Kind && owner.GetUID() == ref.UID
}

// notResync is a predicate that ignores resyncs of pods, since owners are resynced themselves.
func notResync(d object.Delta[*corev1.Pod]) bool { return d.Type != object.Sync }

// reconcile brings one owner's pods and status in line with its spec.
func (e *engine[O]) reconcile(ctx context.Context, key object.Key) (controller.Result, error) {
	owner, ok := e.owners.Get(key)
	if !ok {
		e.expectations.forget(key)
		e.unknownOutcomes.forget(key)
		return controller.Result{}, nil
	}
	want, err := e.kind.spec(owner)
	if err != nil {
		return controller.Result{}, controller.Terminal(fmt.Errorf("%s %s: %w", e.kind.Kind, key, err))
	}
	if e.unknownOutcomes.has(key) {
		wait, err := e.resolveUnknownOutcome(ctx, owner, want)
		if err != nil || wait > 0 {
			return controller.Result{RequeueAfter: wait}, err
		}
	}
	// Check the expectations before reading the pods, so that the pods include what fulfilled them.
	mayScale, wait := e.expectations.fulfilled(key, owner.GetUID())
	pods, err := e.claimPods(ctx, owner, want)
	if err != nil {
		return controller.Result{}, err
	}
	return e.finish(ctx, owner, want, pods, mayScale && owner.GetDeletionTimestamp() == nil, wait)
}

// claimPods returns the owner's pods after adopting and releasing.
func (e *engine[O]) claimPods(ctx context.Context, owner O, want spec) ([]*corev1.Pod, error) {
	snap := e.pods.Snapshot()
	candidates := slices.Collect(snap.ByIndex(e.byOwner, string(owner.GetUID())))
	candidates = slices.AppendSeq(candidates, snap.ByIndex(e.byOwner, orphansOf(owner.GetNamespace())))
	return e.claim(ctx, owner, want, candidates)
}

// finish scales if permitted, writes the status, and returns when to reconcile again.
func (e *engine[O]) finish(ctx context.Context, owner O, want spec, pods []*corev1.Pod, mayScale bool, wait time.Duration) (controller.Result, error) {
	result := scaleResult{active: filter(pods, active)}
	if mayScale {
		result = e.scale(ctx, owner, want, result.active)
		result.attempted = true
	}
	terminatingPods := len(filter(pods, terminating)) + result.terminating
	checkedAt := time.Now()
	err := e.writeStatus(ctx, owner, want, result, terminatingPods, checkedAt)
	switch {
	case result.err == nil && apierrors.IsConflict(err):
		return controller.Result{RequeueAfter: conflictRetry}, nil
	case result.err != nil || err != nil:
		return controller.Result{}, errors.Join(result.err, err)
	case wait > 0:
		return controller.Result{RequeueAfter: wait}, nil
	default:
		return controller.Result{RequeueAfter: nextAvailable(result.active, want.minReadySeconds, checkedAt)}, nil
	}
}

// conflictRetry is the maximum time until an owner is reconciled again whose status could not be
// written because of a conflict. Usually the conflicting change triggers that as soon as the cache
// has it; before that, a retry would fail as well.
const conflictRetry = 5 * time.Second

func filter(pods []*corev1.Pod, keep func(*corev1.Pod) bool) []*corev1.Pod {
	var kept []*corev1.Pod
	for _, p := range pods {
		if keep(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

// nextAvailable returns the time until the next pod becomes available; 0 if none is about to.
func nextAvailable(pods []*corev1.Pod, minReadySeconds int32, now time.Time) time.Duration {
	var next time.Duration
	for _, p := range pods {
		if wait, known := availableIn(p, minReadySeconds, now); known && wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}

// writeStatus writes the owner's status if it differs from the one in the cache.
func (e *engine[O]) writeStatus(ctx context.Context, owner O, want spec, result scaleResult, terminatingPods int, now time.Time) error {
	before := e.kind.status(owner)
	after := before
	if after.terminating = nil; e.kind.countsTerminating {
		after.terminating = new(int32)
	}
	after.count(want, result.active, terminatingPods, now)
	if result.attempted { // otherwise an earlier failure may persist
		after.failure(result.err, result.reason, now)
	}
	after.observedGeneration = owner.GetGeneration()
	shown := after
	if e.noTerminating.Load() {
		shown.terminating = before.terminating
	}
	if shown.equal(before) {
		return nil
	}
	written, err := e.kind.updateStatus(ctx, owner, after)
	if apierrors.IsNotFound(err) {
		return nil // it was deleted, and the cache will show that
	}
	if err != nil {
		return fmt.Errorf("%s %s: the status cannot be written: %w", e.kind.Kind, object.KeyOf(owner), err)
	}
	e.noTerminating.Store(after.terminating != nil && e.kind.status(written).terminating == nil)
	controller.Wrote(ctx, e.owners, written)
	return nil
}

// related returns the pods of all owners with the same controller, for counting the related pods on
// each node. If the owner has no controller, these are its own pods.
func (e *engine[O]) related(owner O, own []*corev1.Pod) []*corev1.Pod {
	ref := metav1.GetControllerOfNoCopy(owner)
	if ref == nil {
		return own
	}
	var pods []*corev1.Pod
	snap := e.pods.Snapshot()
	for sibling := range e.siblings.All(string(ref.UID)) {
		pods = slices.AppendSeq(pods, snap.ByIndex(e.byOwner, string(sibling.GetUID())))
	}
	return pods
}
