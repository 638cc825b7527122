package tidings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tidings/tidings/deltafifo"
	"github.com/tidings/tidings/internal/engine"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
)

// SharedInformer keeps an exact, indexed, current copy of a collection and notifies handlers of every change.
//
// It is one user's reference to an informer that others may share: Stop releases the reference and
// removes the handlers and indexes added through it; the informer itself stops with its last user.
// Its methods may be called from any goroutine.
type SharedInformer[T Object] struct {
	internals // informerInternals
	core      *engine.Informer[T]
	info      informerInfo
	selection selection
	// release drops the reference on the first call, and reports on every call whether it was the last one.
	release func() (last bool)
	// share returns a reference for one more user.
	share func() (*SharedInformer[T], error)
	// unshare takes the informer out of sharing, for changes that would affect other users. It is
	// an error if there are any.
	unshare func() error

	mu       sync.Mutex
	released bool
	regs     []*Registration
	indexes  []*store.Index[T]
}

// InformerOptions are the options of a standalone informer.
type InformerOptions[T Object] struct {
	Options
	// Name identifies the collection in messages, such as "pods". Empty means the Go type.
	Name string
	// Transform may modify or replace every object before it is stored. It must keep the object's
	// name, namespace, uid and resource version. It owns the object it is given. If it returns nil
	// without an error, the object is left out: the store and the handlers know nothing of it; if
	// the store held an earlier state, that is deleted, and handlers get it as the last one.
	Transform func(T) (T, error)
	// Labels is the label selector that the source applies, if any. Covers needs it to know what the informer holds.
	Labels labels.Selector
}

// NewInformer returns a standalone informer over any source. Most programs get their informers from a Factory.
func NewInformer[T Object](src source.ListerWatcher[T], opts InformerOptions[T]) (*SharedInformer[T], error) {
	if src == nil {
		return nil, errors.New("new informer: the source is nil")
	}
	goType := reflect.TypeFor[T]().String()
	scope := scopeOfSource(src)
	if opts.Files.Dir != "" && opts.Name == "" && scope.Resource.Empty() {
		return nil, errors.New("new informer: Options.Files.Dir needs a Name for the file, because the source does not declare its resource with a method Scope() source.Scope")
	}
	opts.Name = cmp.Or(opts.Name, goType)
	if opts.Recorder != nil {
		src = recording.Record(opts.Recorder, src, scope)
	}
	shared := opts.Options.withDefaults()
	limit, err := shared.memory()
	if err != nil {
		return nil, fmt.Errorf("new informer: %w", err)
	}
	var clock *memory.Clock
	if !shared.keepsOpen(scope.Resource.GroupResource()) {
		clock = new(memory.Clock)
	}
	core := engine.New(engine.Config[T]{
		Clock:   clock,
		Options: shared.engine(new(reflector.Peers), clusterOf(nil, shared)), Identity: identityOf(opts.Name, scope, opts.Labels),
		Name: opts.Name, Resource: scope.Resource, Namespaces: []string{All}, Transform: opts.Transform, Memory: limit,
		Type: intake.ObjectType[T](src), NewSource: func(string) (source.ListerWatcher[T], error) { return src, nil },
	})
	inf := &SharedInformer[T]{
		core: core, info: informerInfo{resource: opts.Name, title: opts.Name, goType: goType, staleAfter: shared.StaleAfter}, selection: selection{labels: opts.Labels},
		release: func() bool { return true },
		share: func() (*SharedInformer[T], error) {
			return nil, fmt.Errorf("%s: a standalone informer has one user; get one from a factory", opts.Name)
		},
		unshare: func() error {
			return fmt.Errorf("%s: a standalone informer cannot change its namespaces; get one from a factory", opts.Name)
		},
	}
	inf.internals = newInternals(inf, nil)
	return inf, nil
}

// scopeOfSource returns the scope that a source declares. It is empty unless src has a Scope
// method, as package source's API server sources do.
func scopeOfSource(src any) source.Scope {
	if scoped, ok := src.(interface{ Scope() source.Scope }); ok {
		return scoped.Scope()
	}
	return source.Scope{}
}

// identityOf returns the description under which a standalone informer's objects are saved in a file.
func identityOf(name string, scope source.Scope, selector labels.Selector) map[string]string {
	identity := map[string]string{"name": name, "scope": scopeText(scope)}
	if selector != nil && !selector.Empty() {
		identity["labels"] = selector.String()
	}
	return identity
}

// scopeText describes what decides which objects a source brings.
func scopeText(s source.Scope) string {
	text := fmt.Sprintf("%v of %v in %q, %q, %q, without %v", s.Kind, s.Resource, s.Namespace, s.Labels, s.Fields, s.Trim)
	if shard := s.Shard.String(); shard != "" {
		text += ", " + shard
	}
	return text
}

// Name returns the informer's name, such as "pods" or "widgets.example.com".
func (inf *SharedInformer[T]) Name() string { return inf.info.resource }

// Start starts listing and watching, until ctx ends or the informer is stopped. The source gets
// ctx's values with each request. Starting again does nothing. It does not wait for the sync; see
// WaitForSync.
func (inf *SharedInformer[T]) Start(ctx context.Context) error { return inf.core.Start(ctx) }

// Stop releases this reference to the informer: it removes the handlers and indexes that were added
// through it and, if the informer has no other users, stops the informer. It waits, until ctx ends,
// for what it stops; called again, it waits again. Called from a handler or another callback of an
// informer, it does not wait for that call, which is the last, nor for callbacks that are waiting
// in Stop themselves.
func (inf *SharedInformer[T]) Stop(ctx context.Context) error {
	inf.mu.Lock()
	regs, indexes := slices.Clone(inf.regs), inf.indexes
	inf.indexes, inf.released = nil, true
	inf.mu.Unlock()
	last := inf.release()
	if last {
		inf.core.Halt(nil) // first, because handlers may be waiting for something that it ends
	}
	var errs []error
	for _, r := range regs {
		errs = append(errs, r.Remove(ctx)) // on error it stays registered, for the next call
	}
	inf.core.RemoveIndexes(indexes)
	if last {
		errs = append(errs, stopError(inf.core.Stop(ctx)))
	}
	return errors.Join(errs...)
}

// Share returns another reference to the informer, for another user: its handlers and indexes are its own, and the
// informer stops with its last user. It also works for an UnsharedInformer. It is an error for a standalone informer,
// and after the informer has stopped or its last user has left.
func (inf *SharedInformer[T]) Share() (*SharedInformer[T], error) { return inf.share() }

// SetTransform sets the function that is applied to every object before it is stored; see
// InformerOptions.Transform. All users of a shared informer share the transform. Setting a second
// one, or setting one after the start, is an error.
func (inf *SharedInformer[T]) SetTransform(transform func(T) (T, error)) error {
	return inf.core.SetTransform(transform)
}

// SetNamespaces changes which namespaces the informer holds; none, or All among them, means all. It
// may be called at any time. Each new namespace is listed on its own, and handlers see its objects
// added. Handlers see the objects of removed namespaces deleted. Other namespaces are not affected.
// It returns when the removed namespaces are gone, or ctx ends.
//
// It is an error if the informer has other users. From then on the informer is not shared: asking
// the factory for its old or new scope returns another informer.
func (inf *SharedInformer[T]) SetNamespaces(ctx context.Context, namespaces ...string) error {
	if err := inf.claim(); err != nil {
		return err
	}
	return stopError(inf.core.SetNamespaces(ctx, canonicalNamespaces(namespaces)))
}

// claim takes the informer out of sharing. It is an error if there are other users, or after Stop,
// when they may be the only ones.
func (inf *SharedInformer[T]) claim() error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.released {
		return fmt.Errorf("%s: set namespaces: %w", inf.Name(), ErrStopped)
	}
	return inf.unshare()
}

// Namespaces returns the namespaces that the informer holds; All stands for all of them.
func (inf *SharedInformer[T]) Namespaces() []string { return slices.Clone(inf.core.Namespaces()) }

// Snapshot returns the newest immutable snapshot of the collection. It costs one atomic load.
func (inf *SharedInformer[T]) Snapshot() Snapshot[T] { return Snapshot[T]{inf.core.Store().Snapshot()} }

// Get returns the object under key from the newest snapshot. It also returns false for an object
// that exists but cannot be decoded; Lookup tells the two apart.
func (inf *SharedInformer[T]) Get(key Key) (T, bool) { return inf.Snapshot().Get(key) }

// Lookup is Get for callers who act on absence, as a reconciler does: err is a *SkippedError if the
// server has the object but it cannot be decoded. If an older state of it could be decoded, Lookup
// returns that, like Get.
func (inf *SharedInformer[T]) Lookup(key Key) (obj T, ok bool, err error) {
	return lookup(inf.core, key)
}

// Lister returns a lister that answers every call from the newest snapshot.
func (inf *SharedInformer[T]) Lister() Lister[T] { return Lister[T]{core: inf.core} }

// ResourceVersionIn returns the version that the newest snapshot is current to in one namespace;
// All is the whole scope.
func (inf *SharedInformer[T]) ResourceVersionIn(namespace string) string {
	return inf.Snapshot().ResourceVersionIn(namespace)
}

// Covers reports whether the informer would hold obj, judging by its namespace, labels and fields.
// It is false if a field selector names a field that the object does not have, since only the
// server knows how to evaluate it.
func (inf *SharedInformer[T]) Covers(obj T) bool {
	return inf.hasNamespace(obj.GetNamespace()) && inf.selection.covers(obj)
}

// CoversMetadata is Covers for an object of which only the metadata is known, in any
// representation. known is false if that does not suffice, because a field selector needs more than
// the name and the namespace; covers is false then.
func (inf *SharedInformer[T]) CoversMetadata(o metav1.Object) (covers, known bool) {
	if !inf.hasNamespace(o.GetNamespace()) {
		return false, true
	}
	return inf.selection.coversMetadata(o)
}

func (inf *SharedInformer[T]) hasNamespace(namespace string) bool {
	held := inf.core.Namespaces()
	return slices.Contains(held, All) || slices.Contains(held, namespace)
}

// AddIndex adds an index; fn returns the values under which an object is found. It may be called at
// any time, and the index is ready when it returns. fn is called for each object and each change,
// sometimes more than once. It must be pure and must not modify the object. If it panics, the
// object has no values in this index, and the panic is logged and counted. The name is for messages
// and need not be unique. AddIndex panics if fn is nil. After Stop, queries of the index call fn
// for each object.
func (inf *SharedInformer[T]) AddIndex(name string, fn func(T) []string) *Index[T] {
	if fn == nil {
		panic(fmt.Sprintf("tidings: AddIndex(%q): the function is nil", name))
	}
	ix := inf.core.AddIndex(name, fn)
	if !inf.trackIndex(ix) {
		inf.core.RemoveIndexes([]*store.Index[T]{ix})
	}
	return &Index[T]{ix}
}

// trackIndex records an index for Stop to remove. It returns false after Stop.
func (inf *SharedInformer[T]) trackIndex(ix *store.Index[T]) bool {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if !inf.released {
		inf.indexes = append(inf.indexes, ix)
	}
	return !inf.released
}

// engineHandlerOptions translates options for the engine.
func engineHandlerOptions(name string, opts HandlerOptions) engine.HandlerOptions {
	return engine.HandlerOptions{
		Name: name, Queue: deltafifo.Options{Policy: deltafifo.Policy(opts.Policy), Limit: opts.Buffer},
		Resync: opts.Resync, OnSynced: opts.OnSynced,
	}
}
