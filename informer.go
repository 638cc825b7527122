package tidings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/store"
)

// SharedInformer keeps an exact, indexed, current copy of a collection and tells handlers of every change.
//
// It is one user's hold on an informer that others may share: Stop gives up the hold with the handlers and
// indexes added through it, and the informer ends with its last user. Its methods may be called from any goroutine.
type SharedInformer[T Object] struct {
	core    *core[T]
	release func(context.Context) error // stops the core if this was its last user

	mu       sync.Mutex
	released bool
	regs     []*Registration
	indexes  []*Index[T]
}

// Index finds objects by values that a function takes from them; see AddIndex.
type Index[T Object] = store.Index[T]

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
	if opts.Name == "" {
		opts.Name = reflect.TypeFor[T]().String()
	}
	c := newCore(coreConfig[T]{
		name: opts.Name, opts: opts.Options, transform: opts.Transform, selector: opts.Labels,
		newSource: func(string, bool) (source.ListerWatcher[T], error) { return src, nil },
	})
	return &SharedInformer[T]{core: c, release: c.stop}, nil
}

// Name returns the informer's name, such as "pods" or "widgets.example.com".
func (inf *SharedInformer[T]) Name() string { return inf.core.name }

// Start lets the informer list and watch until ctx ends or it is stopped. Starting again does nothing.
// It does not wait; see WaitForSync.
func (inf *SharedInformer[T]) Start(ctx context.Context) error { return inf.core.start(ctx) }

// Stop gives up this hold on the informer: it removes the handlers and indexes that were added through it and, if
// nobody else holds the informer, ends the informer. It waits for what it ends, until ctx does. It is idempotent.
func (inf *SharedInformer[T]) Stop(ctx context.Context) error {
	inf.mu.Lock()
	regs, indexes, released := inf.regs, inf.indexes, inf.released
	inf.regs, inf.indexes, inf.released = nil, nil, true
	inf.mu.Unlock()
	if released {
		return nil
	}
	var errs []error
	for _, r := range regs {
		errs = append(errs, r.Remove(ctx))
	}
	inf.core.removeIndexes(indexes)
	return errors.Join(append(errs, inf.release(ctx))...)
}

// SetTransform sets the function that every object passes before it is stored; see InformerOptions.Transform. All
// users of a shared informer share the transform, and a second one is an error, as is one for a started informer.
func (inf *SharedInformer[T]) SetTransform(transform func(T) (T, error)) error {
	c := inf.core
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != notStarted {
		return fmt.Errorf("%s: set transform: %w", c.name, ErrStarted)
	}
	if c.transform != nil {
		return fmt.Errorf("%s: set transform: the informer has one already; ask the factory for another scope to have your own", c.name)
	}
	c.transform = transform
	return nil
}

// Snapshot returns the newest immutable picture of the collection. It costs one atomic load.
func (inf *SharedInformer[T]) Snapshot() *Snapshot[T] { return inf.core.store.Snapshot() }

// Get returns the object under key from the newest snapshot.
func (inf *SharedInformer[T]) Get(key Key) (T, bool) { return inf.Snapshot().Get(key) }

// Lister returns a lister, which answers every call from the newest snapshot.
func (inf *SharedInformer[T]) Lister() Lister[T] { return Lister[T]{store: inf.core.store} }

// WaitFor returns when the store is current to resourceVersion, so that a program reads its own writes. It returns
// an error that says what it has and wants when ctx ends or the informer stops first, and at once for a
// version that is not a number.
func (inf *SharedInformer[T]) WaitFor(ctx context.Context, resourceVersion string) error {
	if err := inf.core.checkRunning(); err != nil {
		return err
	}
	ctx, cancel := withStop(ctx, inf.core.life)
	defer cancel()
	if err := inf.core.store.WaitFor(ctx, resourceVersion); err != nil {
		return fmt.Errorf("%s: %w", inf.core.name, err)
	}
	return nil
}

// ResourceVersionIn returns the version that the store is current to in one namespace, which may be newer than the
// snapshot's where the informer watches several.
func (inf *SharedInformer[T]) ResourceVersionIn(namespace string) string {
	c := inf.core
	c.mu.Lock()
	parts := c.parts
	c.mu.Unlock()
	for _, p := range parts {
		if p.namespace == namespace {
			return p.version()
		}
	}
	return inf.Snapshot().ResourceVersion()
}

// Covers reports whether an object such as obj belongs to what the informer holds, by its namespace and labels. Field
// selectors are not looked at.
func (inf *SharedInformer[T]) Covers(obj T) bool {
	c := inf.core
	if c.selector != nil && !c.selector.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	for _, namespace := range c.namespaces {
		if namespace == All || namespace == obj.GetNamespace() {
			return true
		}
	}
	return false
}

// Status reports on the informer.
func (inf *SharedInformer[T]) Status() Status { return inf.core.status(time.Now()) }

// Fresh returns nil while the informer is synced and hears from the server, and else an error that says why not.
func (inf *SharedInformer[T]) Fresh() error {
	st := inf.Status()
	switch {
	case !st.Started:
		return fmt.Errorf("%s: %w", inf.core.name, ErrNotStarted)
	case !st.Synced:
		return inf.core.syncError(nil)
	case st.Stale:
		return fmt.Errorf("%s: stale: nothing was heard from the server for %s: %w", inf.core.name, st.Age.Round(time.Second), inf.core.syncError(nil))
	default:
		return nil
	}
}

// AddIndex adds an index to inf, at any time: fn returns the values under which an object shall be found. The index is
// ready when AddIndex returns. fn is called once for each object and change, must be pure, and must not write to the object; if
// it panics the object has no values in this index, which is logged and counted. The name is for messages, and need not
// be unique.
func AddIndex[T Object](inf *SharedInformer[T], name string, fn func(T) []string) *Index[T] {
	if fn == nil {
		panic(fmt.Sprintf("tidings: AddIndex(%q): the function is nil", name))
	}
	ix := inf.core.addIndex(name, fn)
	inf.mu.Lock()
	defer inf.mu.Unlock()
	inf.indexes = append(inf.indexes, ix)
	return ix
}

func (c *core[T]) addIndex(name string, fn func(T) []string) *Index[T] {
	c.apply.Lock()
	defer c.apply.Unlock()
	return c.writer.AddIndex(name, fn)
}

func (c *core[T]) removeIndexes(indexes []*Index[T]) {
	c.apply.Lock()
	defer c.apply.Unlock()
	for _, ix := range indexes {
		c.writer.RemoveIndex(ix)
	}
}

func (c *core[T]) report(err error) {
	if c.opts.OnError != nil {
		c.opts.OnError(err)
	}
	c.logger.Log(context.Background(), slog.LevelWarn, "informer error", "err", err)
}

// isNil reports whether a T is a nil pointer or a nil interface.
func isNil[T object.Object](obj T) bool {
	v := reflect.ValueOf(obj)
	return !v.IsValid() || (v.Kind() == reflect.Pointer && v.IsNil())
}
