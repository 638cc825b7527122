package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidings/tidings/object"
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

// PanicError says that a function of the program panicked.
type PanicError struct {
	Resource, Function string
	Delta              object.DeltaType // 0 unless a handler has lost one
	Key                object.Key
	Value              any // nil for runtime.Goexit
	Stack              []byte
}

// Error names the function, what it was called for, and the panic.
func (e *PanicError) Error() string {
	what := "called runtime.Goexit"
	if e.Value != nil {
		what = fmt.Sprintf("panicked: %v", e.Value)
	}
	switch {
	case e.Delta != 0:
		return fmt.Sprintf("%s: %s lost the notification %s %s: it %s", e.Resource, e.Function, e.Delta, e.Key, what)
	case e.Key.Name != "":
		return fmt.Sprintf("%s: %s of %s %s", e.Resource, e.Function, e.Key, what)
	default:
		return fmt.Sprintf("%s: %s %s", e.Resource, e.Function, what)
	}
}

// Unwrap returns the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
