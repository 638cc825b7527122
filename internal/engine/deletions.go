package engine

import (
	"strings"

	"github.com/tidings/tidings/object"
)

// rememberedDeletions is how many deletions a part remembers. Events that are repeated or reordered are never far from their
// place, so few are enough.
const rememberedDeletions = 512

// deletionTracker tracks which states of objects that a part does not hold are from before the object's end, and must not bring it back. Versions of
// other objects prove nothing: only a list without the object does, or its own deletion.
type deletionTracker struct {
	listed  string                // the version of the last list
	deleted map[object.Key]string // the versions of the latest deletions
	order   []object.Key          // keys of deleted, a ring
	next    int                   // index of the next one
}

// relisted resets it after a list at the given version.
func (a *deletionTracker) relisted(version string) { *a = deletionTracker{listed: version} }

// record records that the object under key was deleted at the version.
func (a *deletionTracker) record(key object.Key, version string) {
	if a.deleted == nil {
		a.deleted = make(map[object.Key]string)
	}
	key, version = key.Clone(), strings.Clone(version) // they are parts of the object
	if _, again := a.deleted[key]; again {
		a.deleted[key] = version
		return
	}
	if len(a.order) < rememberedDeletions {
		a.order = append(a.order, key)
	} else {
		delete(a.deleted, a.order[a.next])
		a.order[a.next] = key
		a.next = (a.next + 1) % rememberedDeletions
	}
	a.deleted[key] = version
}

// isStale reports whether a state of that version is known to be from before the object's end.
func (a *deletionTracker) isStale(key object.Key, version string) bool {
	if object.OlderResourceVersion(version, a.listed) {
		return true
	}
	end, ok := a.deleted[key]
	return ok && object.OlderResourceVersion(version, end)
}
