package rest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/internal/storage"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ValidateDelete validates the options of a deletion.
func ValidateDelete(options *metav1.DeleteOptions) error {
	if errs := validation.ValidateDeleteOptions(options); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	return nil
}

// Delete deletes an object, or marks it as being deleted if it has finalizers or a grace period. It
// returns the object, or a Status for kinds whose deletion returns that, and whether the object is
// gone.
func (r *Registry) Delete(ctx context.Context, request Request, options *metav1.DeleteOptions) (answer runtime.Object, gone bool, err error) {
	if err := ValidateDelete(options); err != nil {
		return nil, false, err
	}
	if request.Resource.Rules.Orphans && options.PropagationPolicy == nil && request.Resource.Resource == "jobs" {
		request.warn("child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning")
	}
	for ctx.Err() == nil {
		old := r.collection(request.Resource).Get(request.key())
		if old == nil {
			return nil, false, request.NotFound()
		}
		if err := checkPreconditions(request, options.Preconditions, old); err != nil {
			return nil, false, err
		}
		if err := r.admit(ctx, request, Delete, nil, old); err != nil {
			return nil, false, err
		}
		if answer, gone, done := r.deleteOnce(request, old, options); done {
			return answer, gone, nil
		}
	}
	return nil, false, ctx.Err()
}

func checkPreconditions(request Request, p *metav1.Preconditions, o object.Object) error {
	resource := schema.GroupResource{Group: request.Resource.Group, Resource: request.Resource.Kind}
	switch {
	case p == nil:
		return nil
	case p.UID != nil && *p.UID != o.GetUID():
		return apierrors.NewConflict(resource, o.GetName(), fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, o.GetUID()))
	case p.ResourceVersion != nil && *p.ResourceVersion != o.GetResourceVersion():
		return apierrors.NewConflict(resource, o.GetName(), fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, o.GetResourceVersion()))
	}
	return nil
}

// deleteOnce attempts a deletion. done is false if the object changed in the meantime.
func (r *Registry) deleteOnce(request Request, old object.Object, options *metav1.DeleteOptions) (answer runtime.Object, gone, done bool) {
	next := storage.Copy(old)
	graceful, pending := setGracePeriod(next, options, r.Clock())
	if pending {
		return deletionAnswer(request, old), false, true
	}
	next.SetFinalizers(propagation(request, next, options))
	waits := len(next.GetFinalizers()) > 0 || !namespaceIsFinalized(next)
	if !graceful && waits {
		markDeleted(next, r.Clock())
	}
	if waits || graceful && *next.GetDeletionGracePeriodSeconds() > 0 {
		return r.beginDelete(request, old, next)
	}
	if request.DryRun {
		return deletionAnswer(request, next), true, true
	}
	if graceful { // watchers see it as being deleted first
		if _, done := r.collection(request.Resource).Replace(request.key(), old, next); !done {
			return nil, false, false
		}
		old = next
	}
	version, done := r.remove(request, old)
	if !done {
		return nil, false, false
	}
	return deletionAnswer(request, protocol.At(old, version)), true, true
}

// beginDelete stores an object with its deletion timestamp set.
func (r *Registry) beginDelete(request Request, old, next object.Object) (answer runtime.Object, gone, done bool) {
	if namespace, ok := next.(*corev1.Namespace); ok {
		namespace.Status.Phase = corev1.NamespaceTerminating
	}
	if request.DryRun || sameObject(next, old) {
		return next, false, true
	}
	if _, done := r.collection(request.Resource).Replace(request.key(), old, next); !done {
		return nil, false, false
	}
	r.collectAfterUpdate(request, next)
	return next, false, true
}

// setGracePeriod marks an object for graceful deletion. It is pending if it was already marked and the options change
// nothing.
func setGracePeriod(o object.Object, options *metav1.DeleteOptions, now time.Time) (graceful, pending bool) {
	if _, ok := o.(*corev1.Pod); !ok {
		return false, false
	}
	if o.GetDeletionTimestamp() != nil {
		return shortenGracePeriod(o, options, now)
	}
	seconds, _ := gracePeriod(o, options)
	setDeletion(o, now.Add(time.Duration(seconds)*time.Second), seconds)
	if o.GetGeneration() > 0 {
		o.SetGeneration(o.GetGeneration() + 1)
	}
	return true, false
}

func shortenGracePeriod(o object.Object, options *metav1.DeleteOptions, now time.Time) (graceful, pending bool) {
	current := o.GetDeletionGracePeriodSeconds()
	if current == nil || *current == 0 {
		return false, false
	}
	if options.GracePeriodSeconds == nil {
		return false, true
	}
	seconds := max(*options.GracePeriodSeconds, 0)
	if *options.GracePeriodSeconds < 0 {
		seconds = 1
	}
	if seconds >= *current {
		return false, true
	}
	at := o.GetDeletionTimestamp().Add(time.Duration(seconds-*current) * time.Second)
	if at.Before(now) {
		at = now
		if seconds != 0 {
			seconds = 1
		}
	}
	setDeletion(o, at, seconds)
	return true, false
}

func setDeletion(o object.Object, at time.Time, seconds int64) {
	timestamp := metav1.NewTime(at.Truncate(time.Second))
	o.SetDeletionTimestamp(&timestamp)
	o.SetDeletionGracePeriodSeconds(&seconds)
}

// markDeleted marks an object that only its finalizers keep.
func markDeleted(o object.Object, at time.Time) {
	if o.GetDeletionTimestamp() == nil && o.GetGeneration() > 0 {
		o.SetGeneration(o.GetGeneration() + 1)
	}
	if before := o.GetDeletionTimestamp(); before != nil && !before.After(at) {
		at = before.Time
	}
	setDeletion(o, at, 0)
	if _, ok := o.(*corev1.Namespace); ok {
		o.SetDeletionGracePeriodSeconds(nil)
	}
}

// propagation returns the finalizers of an object after a deletion with these options. They tell the garbage collector
// what to do with the dependents.
func propagation(request Request, o object.Object, options *metav1.DeleteOptions) []string {
	before := o.GetFinalizers()
	policy := options.PropagationPolicy
	//lint:ignore SA1019 clients still send it
	if orphans := options.OrphanDependents; orphans != nil {
		background, orphan := metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan
		policy = &background
		if *orphans {
			policy = &orphan
		}
	}
	var wanted string
	switch {
	case request.Resource.Rules.NoGarbageCollection:
	case policy != nil && *policy == metav1.DeletePropagationOrphan:
		wanted = metav1.FinalizerOrphanDependents
	case policy != nil && *policy == metav1.DeletePropagationForeground:
		wanted = metav1.FinalizerDeleteDependents
	case policy != nil:
	case slices.Contains(before, metav1.FinalizerOrphanDependents):
		wanted = metav1.FinalizerOrphanDependents
	case slices.Contains(before, metav1.FinalizerDeleteDependents):
		wanted = metav1.FinalizerDeleteDependents
	case request.Resource.Rules.Orphans:
		wanted = metav1.FinalizerOrphanDependents
	}
	if wanted != "" && slices.Contains(before, wanted) {
		return before
	}
	after := slices.DeleteFunc(slices.Clone(before), isPropagation)
	if wanted != "" {
		after = append(after, wanted)
	}
	return after
}

func isPropagation(finalizer string) bool {
	return finalizer == metav1.FinalizerOrphanDependents || finalizer == metav1.FinalizerDeleteDependents
}

// remove removes an object from the storage.
func (r *Registry) remove(request Request, old object.Object) (version uint64, done bool) {
	version, done = r.collection(request.Resource).Replace(request.key(), old, nil)
	if done {
		r.uninstall(request, old)
		r.collectAfterDelete(request, old)
	}
	return version, done
}

func namespaceIsFinalized(o object.Object) bool {
	namespace, ok := o.(*corev1.Namespace)
	return !ok || len(namespace.Spec.Finalizers) == 0
}

func deletionAnswer(request Request, o object.Object) runtime.Object {
	if request.Resource.Rules.ReturnsDeleted {
		return o
	}
	return &metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{
		Name: o.GetName(), Group: request.Resource.Group, Kind: request.Resource.Resource, UID: o.GetUID(),
	}}
}
