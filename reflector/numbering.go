package reflector

import (
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
)

const (
	// maxStrangers limits how many strangers are remembered. One proves as much as many.
	maxStrangers = 16
	// maxStrangeLists is how many lists with strangers count as those of a server whose history was rewritten.
	maxStrangeLists = 2
)

// numbering tracks how the server numbers its states. Versions of lists prove something only if all
// objects are numbered in one sequence.
type numbering struct {
	// strangers maps objects that a watch brought in states older than the watch, and which the
	// sink does not have, to the version at which the watch began. A proxy may have repeated these.
	// If the next list has one of them in such a state, then the list before should have had it:
	// the history was rewritten, or an object's version has nothing to do with that of a list.
	strangers map[object.Key]string
	lists     int // how many lists had one
}

// isStranger reports whether an event is older than the watch although the sink does not have the
// object, and remembers it.
func (r *Reflector[T]) isStranger(key object.Key, version string) bool {
	if r.opts.Previous == nil || r.unproven() || !object.OlderResourceVersion(version, r.stream.from) {
		return false
	}
	if _, held := r.holder.Held(key); held {
		return false
	}
	if r.numbering.strangers == nil {
		r.numbering.strangers = map[object.Key]string{}
	}
	if len(r.numbering.strangers) < maxStrangers {
		r.numbering.strangers[key.Clone()] = r.stream.from
	}
	return true
}

// isListed reports whether a listed object is a stranger, and in a state from before the watch that brought it began.
func (r *Reflector[T]) isListed(o intake.Received[T]) (stranger bool) {
	if len(r.numbering.strangers) == 0 {
		return false
	}
	from, ok := r.numbering.strangers[o.Key()]
	return ok && object.OlderResourceVersion(o.Version(), from)
}

// listContradicts reports whether the gathered list shows that the history is another one than
// before, or that its version proves nothing, in which case another list follows.
func (r *Reflector[T]) listContradicts(version string) bool {
	if r.unproven() || r.list.older.Name == "" && r.list.stranger.Name == "" {
		return false
	}
	r.closeStream()
	if r.list.older.Name == "" {
		r.list.older, r.numbering.strangers = r.list.stranger, nil
		r.numbering.lists++
	}
	if r.numbering.lists > maxStrangeLists {
		r.provesNothing(version, "")
		r.enter(Starting)
		return true
	}
	r.historyOvertaken(version)
	return true
}

// noteNumbering records what a response shows of how the server numbers its states; newest is the
// newest version of an object in it. A collection that is older than its own objects has a version
// that says nothing about it: a constant, the greatest text, or the number of something else.
func (r *Reflector[T]) noteNumbering(version, newest string) {
	if object.OlderResourceVersion(version, newest) {
		r.provesNothing(version, newest)
	}
}

// provesNothing records that the versions of lists prove nothing. It stays like that, since later
// lists may not show it.
func (r *Reflector[T]) provesNothing(list, state string) {
	if r.status.unproven.Swap(true) {
		return
	}
	r.status.lead.clear()
	r.logRarely(slogWarn, "the resource versions of this server's lists prove nothing; everything is listed again after each watch",
		"list_version", list, "object_version", state)
}

// unproven reports whether the versions of lists prove nothing. Each list then counts as it is.
func (r *Reflector[T]) unproven() bool { return r.status.unproven.Load() }
