package tidingstest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tidings/tidings/object"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// store holds the objects of all resources and the history of their changes, under one growing version.
type store struct {
	mu      sync.Mutex
	version uint64
	// changed is closed and replaced at every change, which wakes the watches.
	changed   chan struct{}
	resources map[schema.GroupVersionResource]*collection
	uids      int // uids given out
}

// collection holds the objects of one resource.
type collection struct {
	kind    schema.GroupVersionKind
	builtIn bool // served in protobuf too
	removed bool
	objects map[object.Key]object.Object
	// history holds the changes since dropped, oldest first. The objects in it are never written to.
	history []change
	// dropped is the version up to which the history is gone; compacted, not less, is where new requests may start.
	dropped, compacted uint64
	// bookmarks counts the bookmarks that the test asked for.
	bookmarks int
}

// change is one entry of a collection's history. before or after is nil for a creation or a deletion.
type change struct {
	version       uint64
	before, after object.Object
	// final is the object of a Deleted event: the last state, at the version of the deletion.
	final object.Object
}

func (s *store) init() {
	s.version = 1000
	s.changed = make(chan struct{})
	s.resources = make(map[schema.GroupVersionResource]*collection)
	for kind := range scheme.Scheme.AllKnownTypes() {
		if kind.Version == "__internal" || strings.HasSuffix(kind.Kind, "List") {
			continue
		}
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		s.resources[resource] = &collection{kind: kind, builtIn: true, objects: map[object.Key]object.Object{}}
	}
}

func (s *store) addResource(resource schema.GroupVersionResource, kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources[resource] = &collection{
		kind:      resource.GroupVersion().WithKind(kind),
		objects:   map[object.Key]object.Object{},
		dropped:   s.version,
		compacted: s.version,
	}
}

func (s *store) removeResource(resource schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.resources[resource]; c != nil {
		c.removed = true
		delete(s.resources, resource)
		s.wake()
	}
}

// wake is called with the lock held.
func (s *store) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// collectionOf finds the collection that holds objects of this kind.
func (s *store) collectionOf(kind schema.GroupVersionKind) (*collection, error) {
	for _, c := range s.resources {
		if c.kind == kind {
			return c, nil
		}
	}
	return nil, fmt.Errorf("the server knows no resource of kind %v; declare it with AddResource", kind)
}

// write makes a change: it calls edit with the present state (nil if there is none) and stores what edit
// returns, under a new version. A nil result deletes the object.
func (s *store) write(kind schema.GroupVersionKind, key object.Key, edit func(old object.Object) (object.Object, error)) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.collectionOf(kind)
	if err != nil {
		return 0, err
	}
	before := c.objects[key]
	after, err := edit(before)
	if err != nil {
		return 0, err
	}
	s.version++
	entry := change{version: s.version, before: before, after: after}
	if after == nil {
		entry.final = copyAt(before, s.version)
		delete(c.objects, key)
	} else {
		after.SetResourceVersion(strconv.FormatUint(s.version, 10))
		c.objects[key] = after
	}
	c.history = append(c.history, entry)
	s.wake()
	return s.version, nil
}

// at returns the objects of the collection as they were at a version, in key order.
func (c *collection) at(version uint64) []object.Object {
	state := maps.Clone(c.objects)
	for _, entry := range slices.Backward(c.history) {
		switch {
		case entry.version <= version:
			return sorted(state)
		case entry.before == nil:
			delete(state, object.KeyOf(entry.after))
		default:
			state[object.KeyOf(entry.before)] = entry.before
		}
	}
	return sorted(state)
}

// since returns the changes behind a version.
func (c *collection) since(version uint64) []change {
	i, _ := slices.BinarySearchFunc(c.history, version+1, func(e change, v uint64) int { return cmp.Compare(e.version, v) })
	return c.history[i:]
}

func sorted(state map[object.Key]object.Object) []object.Object {
	keys := slices.SortedFunc(maps.Keys(state), object.Key.Compare)
	objects := make([]object.Object, len(keys))
	for i, key := range keys {
		objects[i] = state[key]
	}
	return objects
}

// event turns a change into what a watch with this selection sees of it, which may be nothing.
func (e change) event(selected func(object.Object) bool) (watch.EventType, object.Object) {
	was := e.before != nil && selected(e.before)
	is := e.after != nil && selected(e.after)
	switch {
	case is && was:
		return watch.Modified, e.after
	case is:
		return watch.Added, e.after
	case was && e.after == nil:
		return watch.Deleted, e.final
	case was:
		return watch.Deleted, copyAt(e.before, e.version)
	default:
		return "", nil
	}
}

func copyAt(o object.Object, version uint64) object.Object {
	o = copyOf(o)
	o.SetResourceVersion(strconv.FormatUint(version, 10))
	return o
}

func copyOf(o object.Object) object.Object { return o.DeepCopyObject().(object.Object) }

// view is what one request sees of a resource.
type view struct {
	collection *collection
	kind       schema.GroupVersionKind
	version    uint64
	changed    <-chan struct{}
}

// view looks up a resource; ok is false if the server does not know it.
func (s *store) view(resource schema.GroupVersionResource) (v view, ok bool) {
	c := s.resources[resource]
	if c == nil {
		return view{}, false
	}
	return view{collection: c, kind: c.kind, version: s.version, changed: s.changed}, true
}
