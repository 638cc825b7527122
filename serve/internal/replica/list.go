package replica

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// list is the state at a version: a snapshot, less what has changed since. It implements protocol.List.
type list struct {
	snapshot *store.Snapshot[*codec.Raw]
	head     int // see packed
	// undone has the states that objects had before the changes that the snapshot has and the list has not, by
	// namespace and sorted by name.
	undone map[string][]undone
}

// undone is the earlier state of an object; nil if it did not exist.
type undone struct {
	name   string
	before object.Object
}

// newList returns the state before changes that the snapshot includes, in their order.
func newList(snapshot *store.Snapshot[*codec.Raw], head int, changes []entry) *list {
	l := &list{snapshot: snapshot, head: head}
	if len(changes) == 0 {
		return l
	}
	seen := make(map[object.Key]bool, len(changes))
	l.undone = map[string][]undone{}
	for i := range changes {
		e := &changes[i]
		if !seen[e.key] { // the state before its first change is the one that it had
			seen[e.key] = true
			l.undone[e.key.Namespace] = append(l.undone[e.key.Namespace], undone{e.key.Name, e.Before})
		}
	}
	for _, of := range l.undone {
		slices.SortFunc(of, func(a, b undone) int { return cmp.Compare(a.name, b.name) })
	}
	return l
}

// From implements protocol.List.
func (l *list) From(prefix, start string) iter.Seq[object.Object] {
	return func(yield func(object.Object) bool) {
		for namespace, name := range l.parts(prefix, start) {
			for o := range l.in(namespace, name) {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// Count implements protocol.List.
func (l *list) Count(prefix, start string) (n int) {
	for namespace, name := range l.parts(prefix, start) {
		if name == "" && len(l.undone[namespace]) == 0 && namespace != "" {
			n += l.snapshot.In(namespace).Len()
			continue
		}
		for range l.in(namespace, name) {
			n++
		}
	}
	return n
}

// parts iterates over the namespaces whose objects have paths that begin with a prefix, in the order of these, and the
// names with which they begin at or after prefix+start.
func (l *list) parts(prefix, start string) iter.Seq2[string, string] {
	return func(yield func(namespace, name string) bool) {
		if prefix != "" {
			yield(strings.TrimSuffix(prefix, "/"), start)
			return
		}
		for _, namespace := range l.namespaces() {
			path := pathPrefix(namespace)
			name, within := strings.CutPrefix(start, path)
			if !within && start > path {
				continue // all of it is before the start
			}
			if !within {
				name = ""
			}
			if !yield(namespace, name) {
				return
			}
		}
	}
}

// namespaces returns those that have objects, in the order of their paths, which is not that of their names: "a-b/x" is
// before "a/x".
func (l *list) namespaces() []string {
	all := slices.Collect(maps.Keys(l.undone))
	for from, more := (object.Key{}), true; more; {
		more = false
		for h := range l.snapshot.HeldFrom(from) {
			namespace := h.Key().Namespace
			all, more = append(all, namespace), true
			from = object.Key{Namespace: namespace + "\x00"}
			break
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(pathPrefix(a), pathPrefix(b)) })
	return slices.Compact(all)
}

// pathPrefix returns what the paths of a namespace's objects begin with.
func pathPrefix(namespace string) string {
	if namespace == "" {
		return ""
	}
	return namespace + "/"
}

// in iterates over the objects of a namespace, from a name on.
func (l *list) in(namespace, name string) iter.Seq[object.Object] {
	return func(yield func(object.Object) bool) {
		left := l.undone[namespace]
		i, _ := slices.BinarySearchFunc(left, name, func(u undone, name string) int { return cmp.Compare(u.name, name) })
		left = left[i:]
		earlier := func(than string) bool { // yields the undone ones before a name
			for ; len(left) > 0 && left[0].name < than; left = left[1:] {
				if o := left[0].before; o != nil && !yield(o) {
					return false
				}
			}
			return true
		}
		for h := range l.snapshot.HeldFrom(object.Key{Namespace: namespace, Name: name}) {
			key := h.Key()
			if key.Namespace != namespace {
				break
			}
			if len(left) > 0 {
				if !earlier(key.Name) {
					return
				}
				if len(left) > 0 && left[0].name == key.Name {
					if o := left[0].before; o != nil && !yield(o) {
						return
					}
					left = left[1:]
					continue
				}
			}
			if !yield(l.objectOf(h)) {
				return
			}
		}
		for _, u := range left {
			if u.before != nil && !yield(u.before) {
				return
			}
		}
	}
}

// objectOf returns an object of the snapshot, which is opened only once its bytes are needed.
func (l *list) objectOf(h store.Held[*codec.Raw]) object.Object {
	if h.IsFolded() {
		return &packed{ObjectMeta: noMeta, held: h, head: l.head}
	}
	return h.Object()
}
