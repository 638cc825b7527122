// Package rest does what a Kubernetes API server does between the decoded request and the storage: it checks and completes
// metadata, runs admission, keeps track of generations and managed fields, resolves conflicts, and carries out deletions
// in their steps.
package rest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest/internal/api"
	"github.com/tidings/tidings/tidingstest/internal/fields"
	"github.com/tidings/tidings/tidingstest/internal/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Registry reads and writes the objects of a server. Its methods may be called from any goroutine.
type Registry struct {
	Store   *storage.Store
	Catalog *api.Catalog

	// Admit, unless it is nil, may change or refuse an object that is to be written. It is called without locks held.
	Admit func(context.Context, *Admission) error
	// RequireNamespaces refuses to create objects in namespaces that do not exist.
	RequireNamespaces bool
	// Clock returns the present time by the server's clock.
	Clock func() time.Time
	// CollectGarbage deletes the dependents of deleted owners, and the content of deleted namespaces.
	CollectGarbage bool

	fields fields.Managers

	mu     sync.Mutex // guards what follows
	random *rand.Rand
	uids   uint64
}

// NewRegistry returns a registry whose generated names and uids depend on nothing but the seed and the order of requests.
func NewRegistry(store *storage.Store, catalog *api.Catalog, seed uint64) *Registry {
	return &Registry{Store: store, Catalog: catalog, Clock: time.Now, random: rand.New(rand.NewPCG(seed, 0))}
}

// Request says what a write is about.
type Request struct {
	Resource    *api.Resource
	Subresource string
	Namespace   string
	Name        string // empty for a creation whose name is in the object, and for collections
	Manager     string // who will manage the written fields
	UserAgent   string
	DryRun      bool
	// Warn tells the client something that does not stop the request.
	Warn func(string)
}

func (r Request) key() object.Key { return object.Key{Namespace: r.Namespace, Name: r.Name} }

func (r Request) groupResource() schema.GroupResource { return r.Resource.GroupResource() }

func (r Request) notFound() error { return apierrors.NewNotFound(r.groupResource(), r.Name) }

// Operation is what an admission function is asked to admit.
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
	Name        string // empty while a generated name is not known
	// Object is what is to be written; the function may change it. It is nil for a deletion.
	Object object.Object
	// Old is the present object, which must not be changed. It is nil for a creation.
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

// collection returns the collection behind a resource.
func (r *Registry) collection(resource *api.Resource) *storage.Collection {
	return r.Store.Collection(resource.Storage)
}

// Get returns an object in its stored version.
func (r *Registry) Get(request Request) (object.Object, error) {
	if o := r.collection(request.Resource).Get(request.key()); o != nil {
		return o, nil
	}
	return nil, request.notFound()
}

// NewUID returns a uid that this registry has not given out.
func (r *Registry) NewUID() types.UID {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uids++
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", r.uids))
}

// generated names have five random letters or digits that do not form words.
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

// Manage notes that the manager of a request set the fields in which o differs from old.
func (r *Registry) Manage(request Request, old, o object.Object) (object.Object, error) {
	manager, err := r.fields.For(request.Resource, request.Subresource)
	if err != nil {
		return nil, err
	}
	return manager.UpdateNoErrors(old, o, request.Manager).(object.Object), nil
}

// Apply merges into old what the manager of a request applies.
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

// checkNamespace makes the namespace of o that of the request, or refuses another one.
func checkNamespace(request Request, o metav1.Object) error {
	switch {
	case !request.Resource.Namespaced || o.GetNamespace() == "":
		o.SetNamespace(request.Namespace)
	case o.GetNamespace() != request.Namespace:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}
