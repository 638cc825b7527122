package engine

import (
	"errors"
	"fmt"
	"strings"
)

// Errors that the public API passes on.
var (
	ErrNotStarted = errors.New("the informer has not been started; call Start on it or on its factory")
	ErrStopped    = errors.New("the informer has been stopped")
	ErrStarted    = errors.New("the informer has already been started")
	ErrTransform  = errors.New("transform")
	errNoFilter   = errors.New("the handler has no filter")
	ErrOutOfScope = errors.New("the object is not in the informer's scope")
)

// StopError says that the context of a stop ended before everything it waits for.
type StopError struct {
	Resource string
	Handlers []string // still running
	Err      error
}

// Error names the handlers that are still running.
func (e *StopError) Error() string {
	if len(e.Handlers) == 0 {
		return fmt.Sprintf("%s: still stopping: %v", e.Resource, e.Err)
	}
	return fmt.Sprintf("%s: still stopping: %v; running handlers: %s", e.Resource, e.Err, strings.Join(e.Handlers, ", "))
}

// Unwrap returns the context's error.
func (e *StopError) Unwrap() error { return e.Err }
