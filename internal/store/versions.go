package store

import (
	"slices"
	"strings"

	"github.com/tidings/tidings/object"
)

// part is a unit that is listed and watched: one namespace, or all of them if namespace is empty.
// version is the resource version it is current to, "" if not known yet.
type part struct {
	namespace, version string
}

// versions are the resource versions of the parts of a collection. It is a value: what it refers to never changes.
//
// Invariant: parts is nil as long as only the part of all namespaces has a version, which is then
// lowest. Otherwise it is sorted by namespace, and lowest is the lowest version in it, "" if one of
// them has none.
type versions struct {
	lowest string
	parts  []part
}

// in returns the version of the part that covers the namespace; "" means all.
func (v *versions) in(namespace string) string {
	if namespace == "" || v.parts == nil {
		return v.lowest
	}
	if i, ok := v.find(v.covering(namespace)); ok {
		return v.parts[i].version
	}
	return ""
}

// of returns the version of a part, "" if there is none.
func (v *versions) of(namespace string) string {
	if i, ok := v.find(namespace); ok {
		return v.parts[i].version
	}
	if namespace == "" && v.parts == nil {
		return v.lowest
	}
	return ""
}

// covering returns the name of the part that covers the namespace: its own, or else the one of all namespaces.
func (v *versions) covering(namespace string) string {
	if _, ok := v.find(namespace); ok {
		return namespace
	}
	return ""
}

// has reports whether there is such a part.
func (v *versions) has(namespace string) bool {
	_, ok := v.find(namespace)
	return ok || namespace == "" && v.parts == nil && v.lowest != ""
}

func (v *versions) find(namespace string) (int, bool) {
	return slices.BinarySearchFunc(v.parts, namespace, func(p part, n string) int { return strings.Compare(p.namespace, n) })
}

// track adds a part without a version, unless it exists.
func (v *versions) track(namespace string) {
	if v.has(namespace) {
		return
	}
	parts := v.parts
	if parts == nil && v.lowest != "" {
		parts = []part{{version: v.lowest}}
	}
	v.parts = parts
	i, _ := v.find(namespace)
	v.parts, v.lowest = slices.Insert(slices.Clone(parts), i, part{namespace: namespace}), ""
}

// set sets the version of a part, adding it if needed.
func (v *versions) set(namespace, version string) {
	if namespace == "" && (len(v.parts) == 0 || len(v.parts) == 1 && v.parts[0].namespace == "") {
		*v = versions{lowest: version}
		return
	}
	v.track(namespace)
	i, _ := v.find(namespace)
	before := v.parts[i].version
	v.parts = slices.Clone(v.parts)
	v.parts[i].version = version
	if before == v.lowest || object.OlderResourceVersion(version, v.lowest) {
		v.settle()
	}
}

// drop removes a part, if it exists.
func (v *versions) drop(namespace string) {
	if !v.has(namespace) {
		return
	}
	if len(v.parts) < 2 {
		*v = versions{}
		return
	}
	i, _ := v.find(namespace)
	v.parts = slices.Delete(slices.Clone(v.parts), i, i+1)
	v.settle()
}

// settle recomputes the lowest version.
func (v *versions) settle() {
	v.lowest = v.parts[0].version
	for _, p := range v.parts[1:] {
		if p.version == "" || object.OlderResourceVersion(p.version, v.lowest) {
			v.lowest = p.version
		}
		if v.lowest == "" {
			return
		}
	}
}

// Track makes a namespace a separate part of the collection, with its own resource version, unless
// it is one; "" means all namespaces. The store then has no resource version until that part gets
// one, by Replace or Advance. A collection with a single part, of all namespaces, need not be
// tracked.
func (t *Txn[T]) Track(namespace string) {
	t.mustBeOpen("Track")
	t.next.versions.track(namespace)
}

// Advance moves a part forward to the resource version. It does nothing if the part is at a newer
// one or the version is empty. It also tracks the namespace, if it was not tracked.
func (t *Txn[T]) Advance(namespace, resourceVersion string) {
	t.mustBeOpen("Advance")
	if now := t.next.versions.of(namespace); object.MaxResourceVersion(now, resourceVersion) != now {
		t.next.versions.set(namespace, resourceVersion)
	}
}
