package rest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/tidings/tidings/object"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// errModified is the message of a version conflict.
var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// Edit returns the new state of an object, given the current one, which it must not change and which is nil if there is
// none. It is called again if another write came in between. The registry takes ownership of the new state.
type Edit func(old object.Object) (object.Object, error)

// Update changes an object and returns the stored one, and whether it was created. An object that
// does not exist is created if its kind allows that or if create is set.
func (r *Registry) Update(ctx context.Context, request Request, create bool, edit Edit) (o object.Object, created bool, err error) {
	for ctx.Err() == nil {
		old := r.collection(request.Resource).Get(request.key())
		if old == nil {
			if o, err = r.createByUpdate(ctx, request, create, edit); apierrors.IsAlreadyExists(err) {
				continue // it was created in the meantime
			}
			return o, true, err
		}
		o, done, err := r.updateOnce(ctx, request, old, edit)
		if done || err != nil {
			return o, false, err
		}
	}
	return nil, false, ctx.Err()
}

func (r *Registry) createByUpdate(ctx context.Context, request Request, create bool, edit Edit) (object.Object, error) {
	if request.Subresource != "" || !create && !request.Resource.Rules.CreateOnUpdate {
		return nil, request.NotFound()
	}
	o, err := edit(nil)
	if err != nil {
		return nil, err
	}
	if uid := o.GetUID(); uid != "" {
		return nil, apierrors.NewConflict(request.groupResource(), request.Name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if _, err := parseVersion(o); err != nil {
		return nil, err
	}
	if !request.DryRun {
		o.SetResourceVersion("")
	}
	if err := checkNamespace(request, o); err != nil {
		return nil, err
	}
	if err := r.admit(ctx, request, Create, o, nil); err != nil {
		return nil, err
	}
	return r.insert(request, o)
}

// updateOnce attempts an update. done is false if the object changed in the meantime.
func (r *Registry) updateOnce(ctx context.Context, request Request, old object.Object, edit Edit) (o object.Object, done bool, err error) {
	o, err = edit(old)
	if err != nil {
		return nil, false, err
	}
	if err := r.admit(ctx, request, Update, o, old); err != nil {
		return nil, false, err
	}
	dedupOwners(request, o, duplicateOwnersAfterAdmission)
	if err := checkVersion(request, o, old); err != nil {
		return nil, false, err
	}
	if err := checkKind(request, o); err != nil {
		return nil, false, err
	}
	if err := prepareAndCheckUpdate(request, o, old); err != nil {
		return nil, false, err
	}
	if err := checkDefinition(request, o); err != nil {
		return nil, false, err
	}
	if !request.DryRun {
		o.SetSelfLink("")
	}
	keepTimes(o, old)
	switch {
	case shouldDelete(o, old):
		if request.DryRun {
			return o, true, nil
		}
		_, done = r.remove(request, old)
		return o, done, nil
	case sameObject(o, old):
		return old, true, nil
	case request.DryRun:
		return o, true, nil
	}
	if _, done = r.collection(request.Resource).Replace(request.key(), old, o); done {
		r.install(request, o, old)
		r.collectAfterUpdate(request, o)
	}
	return o, done, nil
}

// parseVersion returns the version that a client gave an object, if it is one or empty.
func parseVersion(o metav1.Object) (string, error) {
	version := o.GetResourceVersion()
	if version == "" {
		return "", nil
	}
	_, err := strconv.ParseUint(version, 10, 64)
	return version, err
}

// checkVersion rejects an update that is not based on the current version.
func checkVersion(request Request, o, old object.Object) error {
	version, err := parseVersion(o)
	if err != nil {
		return err
	}
	switch {
	case version == old.GetResourceVersion():
		return nil
	case version != "" && version != "0":
		return apierrors.NewConflict(request.groupResource(), request.Name, errModified)
	case request.Resource.Rules.NeedsVersion && (request.Subresource == "" || !request.Resource.BuiltIn):
		kind := schema.GroupKind{Group: request.Resource.Group, Kind: request.Resource.Resource}
		return apierrors.NewInvalid(kind, request.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"),
		})
	}
	o.SetResourceVersion(old.GetResourceVersion())
	return nil
}

func prepareAndCheckUpdate(request Request, o, old object.Object) error {
	if err := checkNamespace(request, o); err != nil {
		return err
	}
	prepareUpdate(request, o, old)
	if o.GetUID() == "" {
		o.SetUID(old.GetUID())
	}
	o.SetCreationTimestamp(old.GetCreationTimestamp())
	if deleted := old.GetDeletionTimestamp(); deleted != nil {
		o.SetDeletionTimestamp(deleted)
	}
	if old.GetDeletionGracePeriodSeconds() != nil && o.GetDeletionGracePeriodSeconds() == nil {
		o.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
	metadata := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(o, request.Resource.Namespaced, nameRule(request.groupResource()), metadata)
	changes := validation.ValidateObjectMetaAccessorUpdate(o, old, metadata)
	errs = append(errs, changes...)
	if request.Resource.BuiltIn { // a real server checks these twice
		errs = append(errs, changes...)
	}
	errs = append(errs, checkFinalizers(request, o)...)
	return invalid(request, o.GetName(), append(errs, structureErrors(request, o)...))
}

// keepTimes keeps the times of managed fields that have not changed otherwise, so that a no-op
// write is recognized as one.
func keepTimes(o, old object.Object) {
	entries, before := o.GetManagedFields(), old.GetManagedFields()
	if len(entries) == 0 || len(entries) != len(before) {
		return
	}
	for i, e := range entries {
		e.Time = before[i].Time
		if !reflect.DeepEqual(e, before[i]) {
			return
		}
	}
	times := entries
	o.SetManagedFields(before)
	if !sameObject(o, old) {
		o.SetManagedFields(times)
	}
}

func sameObject(a, b object.Object) bool {
	kind := a.GetObjectKind().GroupVersionKind()
	a.GetObjectKind().SetGroupVersionKind(b.GetObjectKind().GroupVersionKind())
	defer a.GetObjectKind().SetGroupVersionKind(kind)
	return apiequality.Semantic.DeepEqual(a, b)
}

// shouldDelete reports whether an update removes the last thing that keeps a deleted object.
func shouldDelete(o, old object.Object) bool {
	if old.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) > 0 || !namespaceIsFinalized(o) {
		return false
	}
	grace := old.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// Managed returns an Edit that replaces the current state with o, under the request's manager.
func (r *Registry) Managed(request Request, o object.Object) Edit {
	return func(old object.Object) (object.Object, error) {
		next := o.DeepCopyObject().(object.Object)
		dedupOwners(request, next, duplicateOwners)
		if old == nil {
			old = r.empty(request)
		} else if err := checkUID(request, next, old); err != nil {
			return nil, err
		}
		return r.Manage(request, old, next)
	}
}

// checkUID rejects a write if the uid in o is not that of the current object.
func checkUID(request Request, o, old object.Object) error {
	uid := o.GetUID()
	if uid == "" || uid == old.GetUID() {
		return nil
	}
	key := "/registry/" + request.Resource.Resource + "/" + request.key().String()
	if !request.Resource.BuiltIn {
		key = "/registry/" + request.Resource.Group + "/" + request.Resource.Resource + "/" + request.key().String()
	}
	return apierrors.NewConflict(request.groupResource(), request.Name, fmt.Errorf(
		"StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: %v, UID in object meta: %v",
		key, uid, old.GetUID()))
}

// managedMeta is the metadata that a write to a subresource of another kind passes on to its parent object.
func managedMeta(o metav1.Object, old metav1.Object) {
	if version := o.GetResourceVersion(); version != "" {
		old.SetResourceVersion(version)
	}
	if uid := o.GetUID(); uid != "" {
		old.SetUID(uid)
	}
}
