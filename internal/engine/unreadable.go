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

// openFailed is called when a folded object cannot be opened, on whatever goroutine tried and under whatever lock of the informer. Readers miss it, so
// the collection is listed again.
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
		if p.namespace != "" && p.namespace != cause.key.Namespace || time.Since(p.unreadable) < listAgainEvery {
			continue
		}
		p.unreadable = time.Now()
		p.forceRelist(cause)
	}
}
