package engine

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/tidings/tidings/object"
)

// listAgainEvery is how often, at most, a collection is listed again because of folded objects that cannot be opened: one of them may never open.
const listAgainEvery = 5 * time.Minute

// unreadableError says that readers miss an object.
type unreadableError struct {
	key object.Key
	err error
}

func (e unreadableError) Error() string {
	return fmt.Sprintf("the folded object %s cannot be opened: %v", e.key, e.err)
}

func (e unreadableError) Unwrap() error { return e.err }

// openFailed is told that a folded object cannot be opened, on whatever goroutine that was found out. Readers miss it, so it is listed again.
func (inf *Informer[T]) openFailed(key object.Key, err error) {
	inf.log.log(slog.LevelError, "a folded object cannot be opened; readers miss it until it is listed again", "key", key.String(), "err", err)
	if !inf.mu.TryLock() { // the caller may hold it, who is removing the object then; or else the next reader gets here
		return
	}
	defer inf.mu.Unlock()
	for _, p := range inf.parts {
		if p.namespace != "" && p.namespace != key.Namespace || time.Since(p.unreadable) < listAgainEvery {
			continue
		}
		p.unreadable = time.Now()
		p.heal(unreadableError{key, err})
	}
}
