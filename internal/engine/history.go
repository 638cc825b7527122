package engine

import (
	"fmt"
	"log/slog"

	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// A list may belong to another history than the store: the server's data were restored from a backup. Then the list
// replaces the store's state although that has newer versions.

// replacement is how a list replaces the store's state.
type replacement uint8

const (
	newerOnly     replacement = iota // the store keeps what is newer than the list
	unconditional                    // the store was found to differ from the server, or the versions of lists prove nothing
	otherHistory                     // the list is of another history
)

// replacement returns how the next list replaces the store's state. The list's version need not show that the history was
// rewritten: the new one may have overtaken the old one.
func (p *part[T]) replacement(objects object.Collection[T], version string) replacement {
	before, st := p.healing.rewrites, p.reflector.Status()
	p.healing.rewrites = st.Rewrites
	anyway, contradicted := p.healing.unconditional.Swap(false), p.healing.contradicted.Swap(false)
	switch {
	case contradicted, p.healing.rewrites > before, p.contradicts(objects, version):
		return otherHistory
	case anyway, st.UnprovenVersions:
		return unconditional
	}
	return newerOnly
}

// isOlder reports whether a list is older than what the store has had before, so that it is of another history. It
// tells the user if the part only begins: then the reflector cannot know. apply is held.
func (p *part[T]) isOlder(version string, before *store.Snapshot[T]) bool {
	if p.beginning.over() {
		return object.OlderResourceVersion(version, before.ResourceVersionIn(p.namespace))
	}
	older := object.OlderResourceVersion(version, p.beginning.floor)
	if older {
		p.noteRestored(olderError{version, p.beginning.floor})
	}
	return older
}

// contradicts reports whether a list shows that the part's file is of another history: the list has
// an object in an older state than the file, although the list is not older than that state. It
// also tells the user, since handlers will get older states.
func (p *part[T]) contradicts(objects object.Collection[T], version string) bool {
	if p.file.Path == "" || p.beginning.over() {
		return false
	}
	snap := p.inf.store.Snapshot()
	for listed := range store.HeldOf(objects) {
		held, ok := snap.Held(listed.Key())
		if !ok || object.OlderResourceVersion(version, held.ResourceVersion()) {
			continue
		}
		if object.OlderResourceVersion(listed.ResourceVersion(), held.ResourceVersion()) {
			p.noteRestored(contradictedError{held.Key(), version})
			return true
		}
	}
	return false
}

// contradictedError says that a list and the store belong to different histories.
type contradictedError struct {
	key     object.Key
	version string
}

func (e contradictedError) Error() string {
	return fmt.Sprintf("the server's list at resource version %s has an older state of %s than was seen before: "+
		"its data were probably restored from a backup", e.version, e.key)
}

// noteRestored reports that the server's history is not that of what the store had.
func (p *part[T]) noteRestored(cause error) {
	err := fmt.Errorf("%s: %w", p.inf.cfg.Name, cause)
	p.inf.afterApply(func() {
		p.inf.log.Log(slog.LevelWarn, "the server's data were probably restored from a backup", "err", err)
		p.inf.reportError(err)
	})
}

// olderError says that a list is of another history than what was seen before.
type olderError struct{ version, seen string }

func (e olderError) Error() string {
	return fmt.Sprintf("the server's list is at resource version %s, although %s was seen before: "+
		"its data were probably restored from a backup", e.version, e.seen)
}
