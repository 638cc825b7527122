package rest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// nameAttempts is the number of attempts to generate a name.
const nameAttempts = 8

// Create stores o and returns the stored object. It takes ownership of o.
func (r *Registry) Create(ctx context.Context, request Request, o object.Object) (object.Object, error) {
	o.SetDeletionTimestamp(nil)
	o.SetDeletionGracePeriodSeconds(nil)
	o.SetUID("")
	if err := checkNamespace(request, o); err != nil {
		return nil, err
	}
	dedupOwners(request, o, duplicateOwners)
	o, err := r.Manage(request, r.empty(request), o)
	if err != nil {
		return nil, err
	}
	if request.Name == "" {
		request.Name = o.GetName()
	}
	if err := r.admit(ctx, request, Create, o, nil); err != nil {
		return nil, err
	}
	dedupOwners(request, o, duplicateOwnersAfterAdmission)
	return r.insert(request, o)
}

// empty returns an empty object, from which a creation starts.
func (r *Registry) empty(request Request) object.Object {
	return NewObject(request.Resource)
}

// insert completes, validates and stores an object that has been admitted.
func (r *Registry) insert(request Request, o object.Object) (object.Object, error) {
	if err := r.checkNamespaceExists(request); err != nil {
		return nil, err
	}
	if err := checkKind(request, o); err != nil {
		return nil, err
	}
	generate := o.GetName() == "" && o.GetGenerateName() != ""
	for attempt := 1; ; attempt++ {
		if generate {
			o.SetName(r.generateName(o.GetGenerateName()))
		}
		request.Name = o.GetName()
		o.SetCreationTimestamp(r.now())
		o.SetUID(r.NewUID())
		prepareCreate(request.Resource, o)
		if err := checkCreate(request, o); err != nil {
			return nil, err
		}
		if err := checkDefinition(request, o); err != nil {
			return nil, err
		}
		if request.DryRun && r.collection(request.Resource).Get(request.key()) == nil {
			return o, nil
		}
		if !request.DryRun {
			if version, err := parseVersion(o); err == nil && version != "" && version != "0" {
				return nil, errors.New("resourceVersion should not be set on objects to be created")
			}
			o.SetSelfLink("")
			if _, ok := r.collection(request.Resource).Replace(request.key(), nil, o); ok {
				r.install(request, o, nil)
				return o, nil
			}
		}
		if !generate {
			return nil, apierrors.NewAlreadyExists(request.groupResource(), request.Name)
		}
		if attempt == nameAttempts {
			return nil, apierrors.NewGenerateNameConflict(request.groupResource(), request.Name, 1)
		}
	}
}

// now returns the current time at the precision of object timestamps.
func (r *Registry) now() metav1.Time { return metav1.NewTime(r.Clock().Truncate(time.Second)) }

func checkCreate(request Request, o object.Object) error {
	errs := validation.ValidateObjectMetaAccessor(o, request.Resource.Namespaced, nameRule(request.Resource.GroupResource()), field.NewPath("metadata"))
	errs = append(errs, checkFinalizers(request, o)...)
	return invalid(request, o.GetName(), append(errs, structureErrors(request, o)...))
}

// structureErrors validates a custom object against its schema.
func structureErrors(request Request, o object.Object) field.ErrorList {
	u, ok := o.(*unstructured.Unstructured)
	if !ok || request.Resource.Structure == nil {
		return nil
	}
	return request.Resource.Structure.Validate(u.Object)
}

func invalid(request Request, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(request.Resource.GroupVersionKind().GroupKind(), name, errs)
}

// checkFinalizers requires qualified finalizer names. For custom objects it only warns.
func checkFinalizers(request Request, o object.Object) (errs field.ErrorList) {
	path := field.NewPath("metadata", "finalizers")
	for i, f := range o.GetFinalizers() {
		switch {
		case strings.Contains(f, "/") || isPropagation(f) || f == string(corev1.FinalizerKubernetes):
		case request.Resource.BuiltIn:
			errs = append(errs, field.Invalid(path.Index(i), f, "name is neither a standard finalizer name nor is it fully qualified"))
		default:
			request.warn(fmt.Sprintf("%s: %q: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers", path, f))
		}
	}
	return errs
}

// nameRule returns the name validation of a resource.
func nameRule(r schema.GroupResource) validation.ValidateNameFunc {
	switch {
	case r.Group == "rbac.authorization.k8s.io", r.Group == "" && r.Resource == "events":
		return isPathSegment
	case r.Resource == "namespaces" || r.Resource == "services":
		return validation.NameIsDNSLabel
	default:
		return validation.NameIsDNSSubdomain
	}
}

// isPathSegment allows every name that can be a segment of a URL path.
func isPathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// checkNamespaceExists rejects creations in a terminating namespace and, if so configured, in one that does not exist.
func (r *Registry) checkNamespaceExists(request Request) error {
	if !request.Resource.Namespaced || request.Namespace == "" {
		return nil
	}
	namespaces := r.Store.Collection(corev1.SchemeGroupVersion.WithResource("namespaces"))
	found := namespaces.Get(object.Key{Name: request.Namespace})
	switch {
	case found == nil && r.RequireNamespaces && !isSystemNamespace(request.Namespace):
		return apierrors.NewNotFound(corev1.Resource("namespaces"), request.Namespace)
	case found == nil || found.GetDeletionTimestamp() == nil:
		return nil
	}
	err := apierrors.NewForbidden(request.groupResource(), request.Name,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", request.Namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", request.Namespace),
		Field:   "metadata.namespace",
	})
	return err
}

// isSystemNamespace reports whether an API server creates this namespace when it starts.
func isSystemNamespace(namespace string) bool {
	return namespace == "default" || strings.HasPrefix(namespace, "kube-")
}

const (
	duplicateOwners               = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %v"
	duplicateOwnersAfterAdmission = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %v"
)

// dedupOwners drops duplicate owner references, with a warning.
func dedupOwners(request Request, o metav1.Object, warning string) {
	var kept []metav1.OwnerReference
	var duplicates []string
	for _, ref := range o.GetOwnerReferences() {
		if slices.ContainsFunc(kept, func(k metav1.OwnerReference) bool { return apiequality.Semantic.DeepEqual(k, ref) }) {
			duplicates = append(duplicates, string(ref.UID))
			continue
		}
		kept = append(kept, ref)
	}
	if len(duplicates) > 0 {
		o.SetOwnerReferences(kept)
		request.warn(fmt.Sprintf(warning, strings.Join(duplicates, ", ")))
	}
}

func (r Request) warn(text string) {
	if r.Warn != nil {
		r.Warn(text)
	}
}

// Insert stores an object as is, and only sets a missing uid and creation time. It skips admission and validation.
func (r *Registry) Insert(request Request, o object.Object) (object.Object, error) {
	if o.GetUID() == "" {
		o.SetUID(r.NewUID())
	}
	if created := o.GetCreationTimestamp(); created.IsZero() {
		o.SetCreationTimestamp(r.now())
	}
	if _, ok := r.collection(request.Resource).Replace(request.key(), nil, o); !ok {
		return nil, fmt.Errorf("%s exists already", request.key())
	}
	r.install(request, o, nil)
	return o, nil
}

// Put replaces an object regardless of its version, and keeps its uid and creation time. It skips admission and
// validation.
func (r *Registry) Put(request Request, o object.Object) (object.Object, error) {
	for {
		old := r.collection(request.Resource).Get(request.key())
		if old == nil {
			return nil, fmt.Errorf("%s does not exist", request.key())
		}
		o.SetUID(old.GetUID())
		o.SetCreationTimestamp(old.GetCreationTimestamp())
		if _, ok := r.collection(request.Resource).Replace(request.key(), old, o); ok {
			return o, nil
		}
	}
}

// Drop deletes an object at once and returns its last state, at the version of the deletion. It
// skips admission, but the garbage collector runs if it is enabled.
func (r *Registry) Drop(request Request) (object.Object, error) {
	for {
		old := r.collection(request.Resource).Get(request.key())
		if old == nil {
			return nil, fmt.Errorf("%s does not exist", request.key())
		}
		if version, ok := r.remove(request, old); ok {
			return protocol.At(old, version), nil
		}
	}
}
