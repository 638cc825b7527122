// Package storage holds a test server's objects and the history of their changes.
package storage

import (
	"sync"

	"github.com/tidings/tidings/object"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// firstVersion is the resource version of an empty store. It is not 0, which means "any version" in
// a request. Readers may start from a lower version, because nothing happened before.
const firstVersion = 1000

// Store holds collections of objects under one resource version that grows by one with each change,
// like etcd's revision. Its objects are never modified. The methods of a Store and of its
// collections may be called from any goroutine.
type Store struct {
	limit int // changes that each collection keeps

	mu          sync.Mutex // guards the fields below, and the collections
	version     uint64
	compacted   uint64                                 // of the last Compact or Restore
	changed     chan struct{}                          // closed and replaced on every change
	removed     map[schema.GroupVersionResource]uint64 // the versions at which collections were removed
	collections map[schema.GroupVersionResource]*Collection
}

// New returns an empty store whose collections keep their last limit changes.
func New(limit int) *Store {
	return &Store{
		limit:       limit,
		version:     firstVersion,
		changed:     make(chan struct{}),
		removed:     make(map[schema.GroupVersionResource]uint64),
		collections: make(map[schema.GroupVersionResource]*Collection),
	}
}

// Version returns the version of the latest change.
func (s *Store) Version() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Changed returns a channel that is closed on the next change of any collection.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Store) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Collection returns the collection of a resource, and creates it if there is none.
func (s *Store) Collection(id schema.GroupVersionResource) *Collection {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.collections[id]
	if c == nil {
		c = newCollection(s, id)
		s.collections[id] = c
	}
	return c
}

// Collections returns the collections that have objects.
func (s *Store) Collections() []*Collection {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*Collection
	for _, c := range s.collections {
		if len(c.objects) > 0 {
			found = append(found, c)
		}
	}
	return found
}

// Remove removes a collection with all its objects, and closes it for those who still use it.
func (s *Store) Remove(id schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.collections[id]; c != nil {
		delete(s.collections, id)
		s.removed[id] = s.version
		c.close()
	}
}

// Compact drops the history up to now: new readers cannot start from an older version. Those that already follow a
// collection can still read the changes that they have not seen, until the next Compact.
func (s *Store) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.version
	for _, c := range s.collections {
		c.compact()
	}
}

// Backup is the state of a store at one time.
type Backup struct {
	version     uint64
	collections map[schema.GroupVersionResource]map[string]object.Object
}

// Backup returns the current state.
func (s *Store) Backup() *Backup {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &Backup{version: s.version, collections: make(map[schema.GroupVersionResource]map[string]object.Object)}
	for id, c := range s.collections {
		b.collections[id] = c.copyObjects()
	}
	return b
}

// Restore goes back to an earlier state, including its version. All collections are replaced by new
// ones without history; the old ones are closed.
func (s *Store) Restore(b *Backup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.collections {
		c.close()
	}
	s.version, s.compacted = b.version, b.version
	s.wake()
	s.removed = make(map[schema.GroupVersionResource]uint64)
	s.collections = make(map[schema.GroupVersionResource]*Collection)
	for id, objects := range b.collections {
		c := newCollection(s, id)
		c.load(objects)
		s.collections[id] = c
	}
}

// Copy returns a deep copy of o.
func Copy(o object.Object) object.Object { return o.DeepCopyObject().(object.Object) }
