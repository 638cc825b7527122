package tidings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tidings/tidings/deltafifo"
	"github.com/tidings/tidings/internal/engine"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
	"github.com/tidings/tidings/store"
)

// SharedInformer keeps an exact, indexed, current copy of a collection and notifies handlers of every change.
//
// It is one user's hold on an informer that others may share: Stop gives up the hold with the handlers and
// indexes added through it, and the informer ends with its last user. Its methods may be called from any goroutine.
type SharedInformer[T Object] struct {
	core     *engine.Informer[T]
	about    about
	selected selection
	// release gives up the hold, once, and reports on every call whether it was the last one.
	release func() (last bool)
	// alone makes the informer its user's own, for changes that others must not see.
	alone func() error

	mu       sync.Mutex
	released bool
	regs     []*Registration
	indexes  []*store.Index[T]
}

// InformerOptions are the options of an informer that stands alone.
type InformerOptions[T Object] struct {
	Options
	// Name stands for the collection in messages, such as "pods". Empty means the Go type.
	Name string
	// Transform may change or replace every object before it is stored. It must keep the object's name, namespace,
	// uid and resource version. It owns what it is given.
	Transform func(T) (T, error)
	// Labels is the label selector that the source applies, if any. It tells Covers what the informer holds.
	Labels labels.Selector
}

// NewInformer returns an informer of its own over any source. Most programs take theirs from a Factory.
func NewInformer[T Object](src source.ListerWatcher[T], opts InformerOptions[T]) (*SharedInformer[T], error) {
	if src == nil {
		return nil, errors.New("new informer: the source is nil")
	}
	goType := reflect.TypeFor[T]().String()
	of := scopeOfSource(src)
	if opts.Dir != "" && opts.Name == "" && of.Resource.Empty() {
		return nil, errors.New("new informer: Options.Dir needs a Name for the file, because the source does not tell its resource (by a method Scope() source.Scope)")
	}
	opts.Name = cmp.Or(opts.Name, goType)
	if opts.Recorder != nil {
		src = recording.Record(opts.Recorder, src, of)
	}
	shared := opts.Options.withDefaults()
	memory, err := shared.memory()
	if err != nil {
		return nil, fmt.Errorf("new informer: %w", err)
	}
	core := engine.New(engine.Config[T]{
		Options: shared.engine(new(reflector.Peers), clusterOf(nil, shared)), Identity: identityOf(opts.Name, of, opts.Labels),
		Name: opts.Name, Resource: of.Resource, Namespaces: []string{All}, Transform: opts.Transform, Memory: memory,
		Type: source.ObjectType(src), NewSource: func(string) (source.ListerWatcher[T], error) { return src, nil },
	})
	return &SharedInformer[T]{
		core: core, about: about{resource: opts.Name, title: opts.Name, goType: goType, staleAfter: shared.StaleAfter}, selected: selection{labels: opts.Labels},
		release: func() bool { return true },
		alone: func() error {
			return fmt.Errorf("%s: the informer has one source, which does not know namespaces; take one from a factory", opts.Name)
		},
	}, nil
}

// scopeOfSource returns what a source says that it is for: nothing, if it is not one of package source's for an API server.
func scopeOfSource(src any) source.Scope {
	if scoped, ok := src.(interface{ Scope() source.Scope }); ok {
		return scoped.Scope()
	}
	return source.Scope{}
}

// identityOf is what a file says of the objects of an informer that stands alone.
func identityOf(name string, of source.Scope, selector labels.Selector) map[string]string {
	identity := map[string]string{
		"name": name, "scope": fmt.Sprintf("%v of %v in %q, %q, %q, without %v", of.Kind, of.Resource, of.Namespace, of.Labels, of.Fields, of.Trim),
	}
	if selector != nil && !selector.Empty() {
		identity["labels"] = selector.String()
	}
	return identity
}

// Name returns the informer's name, such as "pods" or "widgets.example.com".
func (inf *SharedInformer[T]) Name() string { return inf.about.resource }

// Start lets the informer list and watch until ctx ends or it is stopped. Starting again does nothing.
// It does not wait; see WaitForSync.
func (inf *SharedInformer[T]) Start(ctx context.Context) error { return inf.core.Start(ctx) }

// Stop gives up this hold on the informer: it removes the handlers and indexes that were added through it and, if
// nobody else holds the informer, ends the informer. It waits for what it ends, until ctx does; called again, it waits again.
// Called from a handler, or another function that an informer calls, it waits for everything but that call, which is the last, and
// but for calls that wait in a stop as well.
func (inf *SharedInformer[T]) Stop(ctx context.Context) error {
	inf.mu.Lock()
	regs, indexes := slices.Clone(inf.regs), inf.indexes
	inf.indexes, inf.released = nil, true
	inf.mu.Unlock()
	last := inf.release()
	if last {
		inf.core.Halt(nil) // first, since it ends what handlers may wait for
	}
	var errs []error
	for _, r := range regs {
		errs = append(errs, r.Remove(ctx)) // one that returns an error stays, for the next call
	}
	inf.core.RemoveIndexes(indexes)
	if last {
		errs = append(errs, stopError(inf.core.Stop(ctx)))
	}
	return errors.Join(errs...)
}

// SetTransform sets the function that every object passes before it is stored; see InformerOptions.Transform. All
// users of a shared informer share the transform, and a second one is an error, as is one for a started informer.
func (inf *SharedInformer[T]) SetTransform(transform func(T) (T, error)) error {
	return inf.core.SetTransform(transform)
}

// SetNamespaces changes which namespaces the informer holds, at any time; none, or All among them, means all. Those that are new are
// listed on their own, and their objects are added for the handlers; the objects of those that are gone are deleted for the
// handlers; the rest goes on untouched. It returns when what is gone is, or ctx ends.
//
// An informer that others share is an error. Afterwards nobody shares it: asking the factory for the scope that it had, or
// has, gives another informer.
func (inf *SharedInformer[T]) SetNamespaces(ctx context.Context, namespaces ...string) error {
	if err := inf.alone(); err != nil {
		return err
	}
	return stopError(inf.core.SetNamespaces(ctx, canonicalNamespaces(namespaces)))
}

// Namespaces returns the namespaces that the informer holds; All means all of them.
func (inf *SharedInformer[T]) Namespaces() []string { return slices.Clone(inf.core.Namespaces()) }

// Snapshot returns the newest immutable picture of the collection. It costs one atomic load.
func (inf *SharedInformer[T]) Snapshot() Snapshot[T] { return Snapshot[T]{inf.core.Store().Snapshot()} }

// Get returns the object under key from the newest snapshot.
func (inf *SharedInformer[T]) Get(key Key) (T, bool) { return inf.Snapshot().Get(key) }

// Lister returns a lister, which answers every call from the newest snapshot.
func (inf *SharedInformer[T]) Lister() Lister[T] { return Lister[T]{store: inf.core.Store()} }

// ResourceVersionIn returns the version that the newest snapshot is current to in one namespace; All is the whole scope.
func (inf *SharedInformer[T]) ResourceVersionIn(namespace string) string {
	return inf.Snapshot().ResourceVersionIn(namespace)
}

// Covers reports whether an object such as obj belongs to what the informer holds, by its namespace, labels and fields. It is
// false where a field selector names a field that the object does not have, since only the server knows what that means.
func (inf *SharedInformer[T]) Covers(obj T) bool {
	return inf.hasNamespace(obj.GetNamespace()) && inf.selected.covers(obj)
}

func (inf *SharedInformer[T]) hasNamespace(namespace string) bool {
	held := inf.core.Namespaces()
	return slices.Contains(held, All) || slices.Contains(held, namespace)
}

// AddIndex adds an index, at any time: fn returns the values under which an object shall be found. The index is
// ready when AddIndex returns. fn is called for each object and change, for some more than once, must be pure, and must not write to the object; if
// it panics the object has no values in this index, which is logged and counted. The name is for messages, and need not
// be unique. A nil fn panics.
func (inf *SharedInformer[T]) AddIndex(name string, fn func(T) []string) *Index[T] {
	if fn == nil {
		panic(fmt.Sprintf("tidings: AddIndex(%q): the function is nil", name))
	}
	ix := inf.core.AddIndex(name, fn)
	inf.mu.Lock()
	defer inf.mu.Unlock()
	inf.indexes = append(inf.indexes, ix)
	return &Index[T]{ix}
}

// engineHandlerOptions translates options for the engine.
func engineHandlerOptions(name string, opts HandlerOptions) engine.HandlerOptions {
	return engine.HandlerOptions{
		Name: name, Queue: deltafifo.Options{Policy: deltafifo.Policy(opts.Policy), Limit: opts.Buffer},
		Resync: opts.Resync, OnSynced: opts.OnSynced,
	}
}
