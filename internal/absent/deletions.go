// Package absent knows which objects a collection does not have: those that were deleted, and those that a transform leaves
// out.
package absent

import (
	"strings"

	"github.com/tidings/tidings/object"
)

// rememberedDeletions is how many deletions a part remembers. Events that are repeated or reordered
// are never far from their place, so few are enough.
const rememberedDeletions = 512

// Deletions tracks which states of objects that a part does not hold are from before the
// object's end, and must not bring it back. Versions of other objects prove nothing: only a list
// without the object does, or its own deletion.
type Deletions struct {
	off     bool                    // versions prove nothing: what a watch brings counts in its order
	forever bool                    // off is not reset by a list: the source does not number states
	listed  string                  // the version of the last list
	deleted map[object.Key]deletion // the latest deletions
	order   []object.Key            // their keys, a ring; those that deleted places elsewhere were deleted again later
	next    int                     // index of the next one
}

// deletion is the newest known deletion of an object.
type deletion struct {
	version string
	at      int // index in order
}

// Relisted resets it after a list at the given version.
func (a *Deletions) Relisted(version string) {
	if !a.forever {
		*a = Deletions{listed: version}
	}
}

// TurnOff makes it track nothing, for servers whose versions prove nothing.
func (a *Deletions) TurnOff() { *a = Deletions{off: true, forever: a.forever} }

// TurnOffForever is TurnOff, whatever lists will say: the source says that it does not number
// states, or an object has come in two states of one version.
func (a *Deletions) TurnOffForever() { *a = Deletions{off: true, forever: true} }

// Record records that the object under key was deleted at the version.
func (a *Deletions) Record(key object.Key, version string) {
	if a.off {
		return
	}
	if a.deleted == nil {
		a.deleted = make(map[object.Key]deletion)
	}
	key, version = key.Clone(), strings.Clone(version)                   // they are parts of the object
	version = object.MaxResourceVersion(a.deleted[key].version, version) // an event may be repeated
	if len(a.order) < rememberedDeletions {
		a.order = append(a.order, key)
	} else {
		if oldest := a.order[a.next]; a.deleted[oldest].at == a.next {
			delete(a.deleted, oldest)
		}
		a.order[a.next] = key
	}
	a.deleted[key] = deletion{version, a.next}
	a.next = (a.next + 1) % rememberedDeletions
}

// IsOlder reports whether a state of an object is known to be older than another one.
func (a *Deletions) IsOlder(version, other string) bool {
	return !a.off && object.OlderResourceVersion(version, other)
}

// IsStale reports whether a state of that version is known to be from before the object's end.
func (a *Deletions) IsStale(key object.Key, version string) bool {
	if object.OlderResourceVersion(version, a.listed) {
		return true
	}
	return object.OlderResourceVersion(version, a.deleted[key].version)
}
