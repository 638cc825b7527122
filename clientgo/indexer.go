package clientgo

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
)

// indexer is an informer's store, for reading and writing. Many controller tests put objects into
// it before the informer runs, or instead of running it. Until the start, such objects are in a
// plain client-go store, which accepts anything. The start moves them to the native store without
// notifying handlers, so that the first list is compared with them.
type indexer struct {
	view *view

	mu      sync.Mutex // held during writes
	started bool
	plain   atomic.Pointer[cache.Indexer] // objects added before the start; nil without any
}

// current returns the store to read from.
func (x *indexer) current() cache.Indexer {
	if plain := x.plain.Load(); plain != nil {
		return *plain
	}
	return x.view
}

// write calls fn with the store to write to.
func (x *indexer) write(fn func(cache.Indexer) error) error {
	if x.view.shows != nil {
		return fmt.Errorf("%s: the store shows what another informer holds, and cannot be written to",
			x.view.native.Name())
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.started && x.plain.Load() == nil {
		plain := cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, x.view.GetIndexers())
		x.plain.Store(&plain)
	}
	return fn(x.current())
}

// start moves the objects to the native store.
func (x *indexer) start() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.started = true
	plain := x.plain.Load()
	if plain == nil {
		return
	}
	var objects []tidings.Object
	for _, item := range (*plain).List() {
		obj, err := apiObject(item)
		if err != nil {
			utilruntime.HandleError(fmt.Errorf("%s: the informer starts without what was put into its store: %w", x.view.native.Name(), err))
			continue
		}
		objects = append(objects, obj)
	}
	x.view.native.Edit(nil, objects)
	x.plain.Store(nil)
}

// Add adds an object. The handlers are not notified.
func (x *indexer) Add(obj interface{}) error {
	return x.write(func(s cache.Indexer) error { return s.Add(obj) })
}

// Update is the same as Add.
func (x *indexer) Update(obj interface{}) error {
	return x.write(func(s cache.Indexer) error { return s.Update(obj) })
}

// Delete deletes the object with obj's key. The handlers are not notified.
func (x *indexer) Delete(obj interface{}) error {
	return x.write(func(s cache.Indexer) error { return s.Delete(obj) })
}

// Replace replaces the whole content. The handlers are not notified. Once the informer runs,
// resourceVersion is ignored: the store's version is the informer's.
func (x *indexer) Replace(objects []interface{}, resourceVersion string) error {
	return x.write(func(s cache.Indexer) error { return s.Replace(objects, resourceVersion) })
}

// Bookmark sets the store's version. It panics once the informer has started, because the version
// is then the informer's.
func (x *indexer) Bookmark(resourceVersion string) {
	_ = x.write(func(s cache.Indexer) error { s.Bookmark(resourceVersion); return nil })
}

// AddIndexers adds indexes, all or none. A duplicate name is an error.
func (x *indexer) AddIndexers(indexers cache.Indexers) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.view.AddIndexers(indexers)
	if plain := x.plain.Load(); plain != nil && err == nil {
		err = (*plain).AddIndexers(indexers)
	}
	return err
}

// Resync does nothing, as in all of client-go's plain stores.
func (x *indexer) Resync() error { return nil }

// List returns all objects, sorted by key once the informer runs.
func (x *indexer) List() []interface{} { return x.current().List() }

// ListKeys returns all keys, sorted by namespace and name once the informer runs.
func (x *indexer) ListKeys() []string { return x.current().ListKeys() }

// Get returns the object with obj's key.
func (x *indexer) Get(obj interface{}) (item interface{}, exists bool, err error) {
	return x.current().Get(obj)
}

// GetByKey returns the object under a key such as "namespace/name".
func (x *indexer) GetByKey(key string) (item interface{}, exists bool, err error) {
	return x.current().GetByKey(key)
}

// LastStoreSyncResourceVersion returns the store's resource version.
func (x *indexer) LastStoreSyncResourceVersion() string {
	return x.current().LastStoreSyncResourceVersion()
}

// Index returns the objects that share an index value with obj.
func (x *indexer) Index(indexName string, obj interface{}) ([]interface{}, error) {
	return x.current().Index(indexName, obj)
}

// ByIndex returns the objects with an index value.
func (x *indexer) ByIndex(indexName, value string) ([]interface{}, error) {
	return x.current().ByIndex(indexName, value)
}

// IndexKeys returns the keys of the objects with an index value.
func (x *indexer) IndexKeys(indexName, value string) ([]string, error) {
	return x.current().IndexKeys(indexName, value)
}

// ListIndexFuncValues returns the values of an index, or none if there is no such index.
func (x *indexer) ListIndexFuncValues(indexName string) []string {
	return x.current().ListIndexFuncValues(indexName)
}

// GetIndexers returns a copy of the map of index functions.
func (x *indexer) GetIndexers() cache.Indexers { return x.view.GetIndexers() }

// The methods below write to the native store.

// apiObject asserts that item is an API object.
func apiObject(item interface{}) (tidings.Object, error) {
	if obj, ok := item.(tidings.Object); ok {
		return obj, nil
	}
	return nil, cache.KeyError{Obj: item, Err: fmt.Errorf("a %T is no API object", item)}
}

// Add adds an object.
func (v *view) Add(item interface{}) error {
	obj, err := apiObject(item)
	if err == nil {
		v.native.Edit(nil, []tidings.Object{obj})
	}
	return err
}

// Update is the same as Add.
func (v *view) Update(item interface{}) error { return v.Add(item) }

// Delete deletes the object with item's key.
func (v *view) Delete(item interface{}) error {
	key, err := keyOf(item)
	if err != nil {
		return err
	}
	if parsed, ok := parseKey(key); ok { // otherwise no object has it
		v.native.Edit([]tidings.Key{parsed}, nil)
	}
	return nil
}

// Replace replaces the whole content.
func (v *view) Replace(items []interface{}, _ string) error {
	var put []tidings.Object
	for _, item := range items {
		obj, err := apiObject(item)
		if err != nil {
			return err
		}
		put = append(put, obj)
	}
	v.native.Edit(slices.Collect(v.native.Snapshot().Keys()), put)
	return nil
}

// Bookmark panics.
func (v *view) Bookmark(string) {
	panic(fmt.Sprintf("clientgo: %s: the informer runs, so that the version of its store is its own", v.native.Name()))
}

// Resync does nothing.
func (v *view) Resync() error { return nil }
