// Package rest implements what a Kubernetes API server does between the decoded request and the
// storage: it validates and completes metadata, runs admission, tracks generations and managed
// fields, resolves conflicts, and carries out deletions in stages.
package rest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/internal/api"
	"github.com/tidings/tidings/tidingstest/internal/fields"
	"github.com/tidings/tidings/tidingstest/internal/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Registry reads and writes the objects of a server. Its methods may be called from any goroutine.
type Registry struct {
	Store   *storage.Store
	Catalog *api.Catalog

	// Admit may change or reject an object before it is written. It is called without locks held.
	// Nil admits everything.
	Admit func(context.Context, *Admission) error
	// RequireNamespaces rejects creations in namespaces that do not exist.
	RequireNamespaces bool
	// Clock returns the server's current time.
	Clock func() time.Time
	// CollectGarbage deletes the dependents of deleted owners, and the content of deleted namespaces.
	CollectGarbage bool

	fields fields.Managers

	mu     sync.Mutex // guards the fields below
	random *rand.Rand
	number uint32 // of this registry
	uids   uint64
}

// registries is the number of registries in the process.
var registries atomic.Uint32

// NewRegistry returns a registry. Its generated names depend only on the seed and the order of requests. No other registry
// of the process gives the same uids, as no other cluster does.
func NewRegistry(store *storage.Store, catalog *api.Catalog, seed uint64) *Registry {
	return &Registry{
		Store: store, Catalog: catalog, Clock: time.Now, random: rand.New(rand.NewPCG(seed, 0)), number: registries.Add(1),
	}
}

// Request describes a write.
type Request struct {
	Resource    *api.Resource
	Subresource string
	Namespace   string
	Name        string // empty for a creation whose name is in the object, and for collections
	Manager     string // the manager of the written fields
	UserAgent   string
	DryRun      bool
	// Warn sends the client a warning.
	Warn func(string)
}

func (r Request) key() object.Key { return object.Key{Namespace: r.Namespace, Name: r.Name} }

func (r Request) groupResource() schema.GroupResource { return r.Resource.GroupResource() }

// NotFound is the error for an object that does not exist.
func (r Request) NotFound() error { return apierrors.NewNotFound(r.groupResource(), r.Name) }

// Operation is the operation that an admission function is asked to admit.
type Operation string

// The operations that are subject to admission.
const (
	Create Operation = "CREATE"
	Update Operation = "UPDATE"
	Delete Operation = "DELETE"
)

// Admission is a write before it is carried out.
type Admission struct {
	Operation   Operation
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	Name        string // empty until a name has been generated
	// Object is the object to be written; the function may change it. It is nil for a deletion.
	Object object.Object
	// Old is the current object, which must not be changed. It is nil for a creation.
	Old       object.Object
	DryRun    bool
	UserAgent string
}

func (r *Registry) admit(ctx context.Context, request Request, op Operation, o, old object.Object) error {
	if r.Admit == nil {
		return nil
	}
	err := r.Admit(ctx, &Admission{
		Operation: op, Resource: request.Resource.GroupVersionResource, Subresource: request.Subresource,
		Namespace: request.Namespace, Name: request.Name, Object: o, Old: old, DryRun: request.DryRun, UserAgent: request.UserAgent,
	})
	if err == nil {
		return nil
	}
	if _, ok := err.(apierrors.APIStatus); ok {
		return err
	}
	return apierrors.NewForbidden(request.groupResource(), request.Name, err)
}

// collection returns the collection of a resource.
func (r *Registry) collection(resource *api.Resource) *storage.Collection {
	return r.Store.Collection(resource.Storage)
}

// Exists reports whether the object of a request exists.
func (r *Registry) Exists(request Request) bool {
	return r.collection(request.Resource).Get(request.key()) != nil
}

// Get returns an object in its storage version.
func (r *Registry) Get(request Request) (object.Object, error) {
	if o := r.collection(request.Resource).Get(request.key()); o != nil {
		return o, nil
	}
	return nil, request.NotFound()
}

// NewUID returns a new unique uid.
func (r *Registry) NewUID() types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uids++
	return types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012d", r.number, r.uids))
}

// Generated names have five random letters or digits that do not form words.
const (
	suffixLetters = "bcdfghjklmnpqrstvwxz2456789"
	suffixLength  = 5
	maxNameBase   = 63 - suffixLength
)

func (r *Registry) generateName(base string) string {
	if len(base) > maxNameBase {
		base = base[:maxNameBase]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	suffix := make([]byte, suffixLength)
	for i := range suffix {
		suffix[i] = suffixLetters[r.random.IntN(len(suffixLetters))]
	}
	return base + string(suffix)
}

// Manage records the request's manager as the owner of the fields in which o differs from old.
func (r *Registry) Manage(request Request, old, o object.Object) (managed object.Object, err error) {
	manager, err := r.fields.For(request.Resource, request.Subresource)
	if err != nil {
		return nil, err
	}
	given := o.GetObjectKind().GroupVersionKind()
	if !request.Resource.BuiltIn {
		o.GetObjectKind().SetGroupVersionKind(request.Resource.GroupVersionKind())
		defer func() { managed.GetObjectKind().SetGroupVersionKind(given) }()
	}
	return manager.UpdateNoErrors(old, o, request.Manager).(object.Object), nil
}

// checkKind rejects a custom object of another kind.
func checkKind(request Request, o object.Object) error {
	given, want := o.GetObjectKind().GroupVersionKind(), request.Resource.Kind
	if request.Resource.BuiltIn || request.Subresource != "" || given.Kind == want {
		return nil
	}
	return apierrors.NewInvalid(given.GroupKind(), o.GetName(),
		field.ErrorList{field.Invalid(field.NewPath("kind"), given.Kind, "must be "+want)})
}

// Apply merges the applied configuration of a request's manager into old.
func (r *Registry) Apply(request Request, old object.Object, patch object.Object, force bool) (object.Object, error) {
	manager, err := r.fields.For(request.Resource, request.Subresource)
	if err != nil {
		return nil, err
	}
	merged, err := manager.Apply(old, patch, request.Manager, force)
	if err != nil {
		return nil, err
	}
	return merged.(object.Object), nil
}

// checkNamespace sets the namespace of o to that of the request, or rejects a different one.
func checkNamespace(request Request, o metav1.Object) error {
	switch {
	case !request.Resource.Namespaced || o.GetNamespace() == "":
		o.SetNamespace(request.Namespace)
	case o.GetNamespace() != request.Namespace:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}
