package clientgo

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
)

// view presents a native informer's store as a cache.Indexer. Each call reads one snapshot.
type view struct {
	native *tidings.SharedInformer[tidings.Object]
	shows  *conversion

	mu       sync.RWMutex
	indexers cache.Indexers
	// indexes has an index for each indexer, except those by namespace, which every snapshot can answer.
	indexes map[string]*tidings.Index[tidings.Object]
}

func newView(native *tidings.SharedInformer[tidings.Object], shows *conversion) *view {
	return &view{native: native, shows: shows, indexers: cache.Indexers{},
		indexes: map[string]*tidings.Index[tidings.Object]{}}
}

// List returns all objects, sorted by key.
func (v *view) List() []interface{} {
	snap := v.native.Snapshot()
	items := make([]interface{}, 0, snap.Len())
	for _, obj := range snap.All() {
		items = v.appendShown(items, obj)
	}
	return items
}

// appendShown adds to a list what is shown of an object.
func (v *view) appendShown(items []interface{}, held tidings.Object) []interface{} {
	if obj := v.shown(held); obj != nil {
		items = append(items, obj)
	}
	return items
}

// shown returns what is shown of an object. It is nil for one that is left out, and for one that cannot be made, which
// is reported.
func (v *view) shown(held tidings.Object) tidings.Object {
	obj, err := v.shows.of(held)
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("%s: a list lacks an object: %w", v.native.Name(), err))
		return nil
	}
	return obj
}

// ListKeys returns all keys, sorted by namespace and name.
func (v *view) ListKeys() []string {
	snap := v.native.Snapshot()
	keys := make([]string, 0, snap.Len())
	for key := range v.keys(snap) {
		keys = append(keys, key.String())
	}
	return keys
}

// keys returns the keys of the objects that are shown.
func (v *view) keys(snap tidings.Snapshot[tidings.Object]) iter.Seq[tidings.Key] {
	if v.shows == nil {
		return snap.Keys()
	}
	return func(yield func(tidings.Key) bool) {
		for key, held := range snap.All() {
			if v.shown(held) != nil && !yield(key) {
				return
			}
		}
	}
}

// Get returns the object with obj's key.
func (v *view) Get(obj interface{}) (item interface{}, exists bool, err error) {
	key, err := keyOf(obj)
	if err != nil {
		return nil, false, err
	}
	return v.GetByKey(key)
}

// keyOf returns the key of an object, or of a tombstone or explicit key.
func keyOf(obj interface{}) (string, error) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return "", cache.KeyError{Obj: obj, Err: err}
	}
	return key, nil
}

// GetByKey returns the object under a key such as "namespace/name". It finds nothing for a key of
// another form. The error is a *tidings.SkippedError for an object that exists but cannot be
// decoded; listers return it instead of NotFound.
func (v *view) GetByKey(key string) (item interface{}, exists bool, err error) {
	parsed, ok := parseKey(key)
	if !ok {
		return nil, false, nil
	}
	held, ok, err := v.native.Lookup(parsed)
	if !ok {
		return nil, false, err
	}
	obj, err := v.shows.of(held)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", v.native.Name(), err)
	}
	if obj == nil {
		return nil, false, nil
	}
	return obj, true, nil
}

// parseKey parses a key. Unlike in the native API, the name may be empty, since fake clients make objects without one.
func parseKey(key string) (parsed tidings.Key, ok bool) {
	if namespace, nameless := strings.CutSuffix(key, "/"); nameless && namespace != "" && !strings.Contains(namespace, "/") {
		return tidings.Key{Namespace: namespace}, true
	}
	if key == "" {
		return tidings.Key{}, true
	}
	parsed, err := object.ParseKey(key)
	return parsed, err == nil
}

// LastStoreSyncResourceVersion returns the store's resource version.
func (v *view) LastStoreSyncResourceVersion() string {
	return v.native.Snapshot().ResourceVersion()
}

// Index returns the objects that share an index value with obj.
func (v *view) Index(indexName string, obj interface{}) ([]interface{}, error) {
	fn, ix, err := v.index(indexName)
	if err != nil {
		return nil, err
	}
	values, err := fn(obj)
	if err != nil {
		return nil, err
	}
	snap := v.native.Snapshot()
	if len(values) == 1 {
		return v.collect(snap, ix, values[0]), nil
	}
	items := []interface{}{}
	seen := sets.New[tidings.Key]()
	for _, value := range values {
		for obj := range withIndexValue(snap, ix, value) {
			if key := object.KeyOf(obj); !seen.Has(key) {
				seen.Insert(key)
				items = v.appendShown(items, obj)
			}
		}
	}
	return items, nil
}

// ByIndex returns the objects with an index value.
func (v *view) ByIndex(indexName, value string) ([]interface{}, error) {
	_, ix, err := v.index(indexName)
	if err != nil {
		return nil, err
	}
	return v.collect(v.native.Snapshot(), ix, value), nil
}

// IndexKeys returns the sorted keys of the objects with an index value.
func (v *view) IndexKeys(indexName, value string) ([]string, error) {
	_, ix, err := v.index(indexName)
	if err != nil {
		return nil, err
	}
	keys := []string{}
	for obj := range withIndexValue(v.native.Snapshot(), ix, value) {
		if ix != nil || v.shown(obj) != nil { // what is not shown has no values
			keys = append(keys, object.KeyOf(obj).String())
		}
	}
	slices.Sort(keys) // the order of namespaces and names is another one
	return keys, nil
}

// ListIndexFuncValues returns the sorted values of an index, or none if there is no such index.
func (v *view) ListIndexFuncValues(indexName string) []string {
	_, ix, err := v.index(indexName)
	switch {
	case err != nil:
		return []string{}
	case ix != nil:
		return slices.AppendSeq([]string{}, v.native.Snapshot().Values(ix))
	}
	namespaces := []string{}
	for key := range v.keys(v.native.Snapshot()) {
		if n := len(namespaces); n == 0 || namespaces[n-1] != key.Namespace {
			namespaces = append(namespaces, key.Namespace)
		}
	}
	return namespaces
}

// GetIndexers returns a copy of the map of index functions.
func (v *view) GetIndexers() cache.Indexers {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return maps.Clone(v.indexers)
}

// AddIndexers adds indexes, all or none. A duplicate name is an error. Readers do not wait
// for it; calls of it must not overlap.
func (v *view) AddIndexers(indexers cache.Indexers) error {
	if conflicts := sets.KeySet(v.GetIndexers()).Intersection(sets.KeySet(indexers)); len(conflicts) > 0 {
		return fmt.Errorf("indexer conflict: %v", conflicts)
	}
	for name, fn := range indexers {
		if fn == nil {
			return fmt.Errorf("indexer %v: the function is nil", name)
		}
	}
	indexes := map[string]*tidings.Index[tidings.Object]{}
	for name, fn := range indexers {
		if !byNamespace(fn) {
			indexes[name] = v.native.AddIndex(name, v.valuesOf(name, fn))
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.Copy(v.indexers, indexers)
	maps.Copy(v.indexes, indexes)
	return nil
}

// valuesOf adapts a client-go index function. The engine recovers from its panic and leaves the
// object out of the index.
func (v *view) valuesOf(name string, fn cache.IndexFunc) func(tidings.Object) []string {
	return func(obj tidings.Object) []string {
		shown, err := v.shows.of(obj)
		if err != nil {
			panic(err)
		}
		if shown == nil {
			return nil
		}
		values, err := fn(shown)
		if err != nil {
			panic(fmt.Errorf("unable to calculate an index entry for key %q on index %q: %w", object.KeyOf(obj), name, err))
		}
		return values
	}
}

// index returns the named index, which is nil for an index by namespace.
func (v *view) index(name string) (cache.IndexFunc, *tidings.Index[tidings.Object], error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	fn, ok := v.indexers[name]
	if !ok {
		return nil, nil, fmt.Errorf("Index with name %s does not exist", name) //nolint:staticcheck // client-go's words
	}
	return fn, v.indexes[name], nil
}

// byNamespace reports whether fn is MetaNamespaceIndexFunc, of client-go or of this module's package cache.
func byNamespace(fn cache.IndexFunc) bool {
	switch runtime.FuncForPC(reflect.ValueOf(fn).Pointer()).Name() {
	case "k8s.io/client-go/tools/cache.MetaNamespaceIndexFunc", "github.com/tidings/tidings/clientgo/cache.MetaNamespaceIndexFunc":
		return true
	}
	return false
}

// withIndexValue iterates over the objects with an index value; a nil index is the one by namespace.
func withIndexValue(snap tidings.Snapshot[tidings.Object], ix *tidings.Index[tidings.Object], value string) iter.Seq[tidings.Object] {
	if ix != nil {
		return snap.ByIndex(ix, value)
	}
	return func(yield func(tidings.Object) bool) {
		for key, obj := range snap.Namespace(value) {
			if key.Namespace == value && !yield(obj) { // an empty value would otherwise select all namespaces
				return
			}
		}
	}
}

func (v *view) collect(
	snap tidings.Snapshot[tidings.Object], ix *tidings.Index[tidings.Object], value string,
) []interface{} {
	items := []interface{}{}
	if ix != nil {
		items = make([]interface{}, 0, snap.Count(ix, value))
	}
	for obj := range withIndexValue(snap, ix, value) {
		items = v.appendShown(items, obj)
	}
	return items
}
