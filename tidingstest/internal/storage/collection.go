package storage

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrTooNew is the error for reading a version that does not exist yet.
var ErrTooNew = errors.New("the version does not exist yet")

// Collection holds the objects of one resource, ordered by path as in etcd. All its fields are guarded by the store's
// lock.
type Collection struct {
	ID    schema.GroupVersionResource // fixed
	store *Store                      // fixed

	objects map[string]object.Object // by path
	paths   []string                 // of objects, sorted
	// history holds the changes after dropped, oldest first.
	history []protocol.Change
	// dropped is the version up to which the history is gone. compacted is at least as high; new readers may not start
	// before it.
	dropped, compacted uint64
	// lists caches the most recently requested lists.
	lists [2]cachedList
	// changed is closed and replaced on every change, bookmark request and close.
	changed   chan struct{}
	bookmarks int // requested so far
	closed    bool
}

// cachedList is a list that was requested before.
type cachedList struct {
	protocol.Entries
	// changed is the version of the last change that the list includes.
	changed uint64
}

// Path returns the path of an object in its collection: "namespace/name", or "name" without a namespace.
func Path(key object.Key) string { return key.String() }

func newCollection(s *Store, id schema.GroupVersionResource) *Collection {
	since := max(s.compacted, s.removed[id])
	return &Collection{
		ID: id, store: s,
		objects: make(map[string]object.Object),
		dropped: since, compacted: since,
		changed: make(chan struct{}),
	}
}

func (c *Collection) load(objects map[string]object.Object) {
	c.objects = maps.Clone(objects)
	c.paths = slices.Sorted(maps.Keys(objects))
}

func (c *Collection) copyObjects() map[string]object.Object { return maps.Clone(c.objects) }

func (c *Collection) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Collection) close() {
	c.closed = true
	c.wake()
}

func (c *Collection) compact() {
	c.history = slices.Clone(c.after(c.compacted))
	c.dropped, c.compacted = c.compacted, c.store.version
}

// Get returns the object with this key, or nil.
func (c *Collection) Get(key object.Key) object.Object {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	return c.objects[Path(key)]
}

// HasNamespace reports whether a namespace has objects.
func (c *Collection) HasNamespace(namespace string) bool {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	prefix := namespace + "/"
	i, _ := slices.BinarySearch(c.paths, prefix)
	return i < len(c.paths) && strings.HasPrefix(c.paths[i], prefix)
}

// Replace stores next under a key if the current object is still old. Nil means no object, for both. It sets next's
// resource version and returns it. If the current object is a different one, or the collection is closed, it changes
// nothing and returns false.
func (c *Collection) Replace(key object.Key, old, next object.Object) (version uint64, ok bool) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	path := Path(key)
	if c.closed || c.objects[path] != old || old == nil && next == nil {
		return 0, false
	}
	c.store.version++
	change := protocol.Change{Version: c.store.version, Before: old, After: next}
	if next == nil {
		change.Final = protocol.At(old, change.Version)
		delete(c.objects, path)
		i, _ := slices.BinarySearch(c.paths, path)
		c.paths = slices.Delete(c.paths, i, i+1)
	} else {
		next.SetResourceVersion(strconv.FormatUint(change.Version, 10))
		c.objects[path] = next
		if old == nil {
			i, _ := slices.BinarySearch(c.paths, path)
			c.paths = slices.Insert(c.paths, i, path)
		}
	}
	c.appendHistory(change)
	c.wake()
	c.store.wake()
	return change.Version, true
}

// appendHistory appends to the history. It drops the oldest changes in bulk, so that the amortized cost is low.
func (c *Collection) appendHistory(change protocol.Change) {
	c.history = append(c.history, change)
	if extra := len(c.history) - c.store.limit; extra > c.store.limit/8 {
		c.dropped = c.history[extra-1].Version
		c.compacted = max(c.compacted, c.dropped)
		c.history = slices.Clone(c.history[extra:])
	}
}

// after returns the changes after a version.
func (c *Collection) after(version uint64) []protocol.Change {
	i, _ := slices.BinarySearchFunc(c.history, version+1, func(e protocol.Change, v uint64) int { return cmp.Compare(e.Version, v) })
	return c.history[i:]
}

// List implements protocol.Storage.
func (c *Collection) List(version uint64) (protocol.List, error) { return c.EntriesAt(version) }

// EntriesAt returns the state at a version.
func (c *Collection) EntriesAt(version uint64) (protocol.Entries, error) {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	switch {
	case c.closed:
		return nil, protocol.ErrGone
	case version > c.store.version:
		return nil, ErrTooNew
	case version < c.compacted:
		return nil, protocol.ErrCompacted
	}
	return c.list(version), nil
}

func (c *Collection) list(version uint64) protocol.Entries {
	later := c.after(version)
	changed := c.dropped
	if n := len(c.history) - len(later); n > 0 {
		changed = c.history[n-1].Version
	}
	for i := range c.lists {
		if c.lists[i].changed == changed {
			return c.lists[i].Entries
		}
	}
	list := cachedList{changed: changed}
	if len(later) == 0 {
		list.Entries = entries(c.paths, c.objects)
	} else {
		objects := rollBack(maps.Clone(c.objects), later)
		list.Entries = entries(slices.Sorted(maps.Keys(objects)), objects)
	}
	c.lists[1], c.lists[0] = c.lists[0], list
	return list.Entries
}

func entries(paths []string, objects map[string]object.Object) []protocol.Entry {
	all := make([]protocol.Entry, len(paths))
	for i, path := range paths {
		all[i] = protocol.Entry{Path: path, Object: objects[path]}
	}
	return all
}

func rollBack(objects map[string]object.Object, changes []protocol.Change) map[string]object.Object {
	for _, change := range slices.Backward(changes) {
		if change.Before == nil {
			delete(objects, Path(object.KeyOf(change.After)))
		} else {
			objects[Path(object.KeyOf(change.Before))] = change.Before
		}
	}
	return objects
}

// After returns the changes after a version. They are read-only.
func (c *Collection) After(version uint64) protocol.Tail {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	return protocol.Tail{
		Changes: c.after(version), Version: c.store.version, Changed: c.changed,
		Bookmarks: c.bookmarks, Lost: version < c.dropped, Closed: c.closed,
	}
}

// Oldest returns the oldest version from which a new reader may start.
func (c *Collection) Oldest() uint64 {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	return c.compacted
}

// RequestBookmarks asks the collection's followers to send a bookmark.
func (c *Collection) RequestBookmarks() {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	c.bookmarks++
	c.wake()
}
