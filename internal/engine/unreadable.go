package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
)

// errUnreadable is why a reader misses a folded object.
var errUnreadable = errors.New("the folded object cannot be opened; it is missing until it is listed again")

// unreadableError says that readers miss an object.
type unreadableError struct {
	key object.Key
	err error
}

func (e unreadableError) Error() string {
	return fmt.Sprintf("the folded object %s cannot be opened: %v", e.key, e.err)
}

func (e unreadableError) Unwrap() error { return e.err }

// openFailed is called when a folded object cannot be opened, on whatever goroutine tried and under
// whatever lock of the informer. Readers miss it, so the collection is listed again.
func (inf *Informer[T]) openFailed(key object.Key, err error) {
	inf.afterApply(func() {
		inf.listUnreadable(unreadableError{key, err})
		inf.log.Log(slog.LevelError, "a folded object cannot be opened; readers miss it until it is listed again", "key", key.String(), "err", err)
	})
}

// listUnreadable requests a list from the parts that may bring the object, unless one was requested lately.
func (inf *Informer[T]) listUnreadable(cause unreadableError) {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	for _, p := range inf.parts {
		elsewhere := p.namespace != "" && p.namespace != cause.key.Namespace
		if !elsewhere && p.healing.afterUnreadable(time.Now()) {
			p.forceRelist(cause)
		}
	}
}

// Missing says why readers miss the object under key although the server has it: it was skipped,
// because it could not be decoded, or its folded state cannot be opened. It is called after a
// snapshot was found to lack the object, and returns nil if there probably is none.
func (inf *Informer[T]) Missing(key object.Key) *reflector.Skipped {
	for _, p := range inf.currentParts() {
		if p.namespace != "" && p.namespace != key.Namespace {
			continue
		}
		if entry, ok := p.reflector.Skipped(key); ok {
			return &entry
		}
	}
	if held, ok := inf.store.Snapshot().Held(key); ok && held.IsFolded() {
		return &reflector.Skipped{Key: key, Err: errUnreadable}
	}
	return nil
}

// Skipped returns the objects of a namespace, "" for all, whose present state could not be decoded, sorted by key.
func (inf *Informer[T]) Skipped(namespace string) []reflector.Skipped {
	var all []reflector.Skipped
	for _, p := range inf.currentParts() {
		all = append(all, intake.ReflectorOf[reflector.Skipped](p.reflector).AllSkipped()...)
	}
	all = slices.DeleteFunc(all, func(s reflector.Skipped) bool { return namespace != "" && s.Key.Namespace != namespace })
	slices.SortFunc(all, func(a, b reflector.Skipped) int { return a.Key.Compare(b.Key) })
	return slices.CompactFunc(all, func(a, b reflector.Skipped) bool { return a.Key == b.Key })
}
