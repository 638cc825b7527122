package tidings

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tidings/tidings/reflector"
)

// Errors that callers test for with errors.Is.
var (
	// ErrNotStarted is returned by a wait on an informer that nobody has started, instead of hanging.
	ErrNotStarted = errors.New("the informer has not been started; call Start on it or on its factory")
	// ErrStopped is returned by calls on an informer or factory that has been stopped, and by waits that
	// it ended.
	ErrStopped = errors.New("the informer has been stopped")
	// ErrStarted is returned by calls that come too late because the informer runs already.
	ErrStarted = errors.New("the informer has already been started")
	// ErrTransform is wrapped by the error that a wrong transform causes.
	ErrTransform = errors.New("transform")
)

// SyncError says why an informer has not synced. It wraps what the server or the network said last, and the
// error of the context that ended the wait.
type SyncError struct {
	// Resource is the informer's name, such as "pods" or "widgets.example.com".
	Resource string
	// Namespace is the namespace that cannot be synced, where the informer has several.
	Namespace string
	// Cause is the last error of the reflector; nil if nothing has failed and the wait was only too short.
	Cause *reflector.Error
	// Wait is what ended the wait; nil if the wait ended because Cause cannot heal by itself.
	Wait error
	// Progress tells how far the informer has come, such as "listing, 1,500 objects so far".
	Progress string
}

// Error returns one line in the user's words, with the way out where there is one.
func (e *SyncError) Error() string {
	switch {
	case e.Cause != nil && e.Namespace != "":
		return fmt.Sprintf("%s (namespace %q)", e.Cause, e.Namespace)
	case e.Cause != nil:
		return e.Cause.Error()
	default:
		return fmt.Sprintf("%s: not synced yet (%s): %v", e.Resource, e.Progress, e.Wait)
	}
}

// Unwrap returns the reflector's error and the one that ended the wait.
func (e *SyncError) Unwrap() []error {
	var errs []error
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	if e.Wait != nil {
		errs = append(errs, e.Wait)
	}
	return errs
}

// Permanent reports whether waiting longer cannot help: a permission, a resource or a certificate is missing.
func (e *SyncError) Permanent() bool { return e.Cause != nil && e.Cause.Permanent() }

// StopError is returned by Stop, Remove and Shutdown when their context ends before all handlers have returned.
type StopError struct {
	Resource string
	// Handlers are the names of the handlers that are still running.
	Handlers []string
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

// withStop returns a context that also ends, with ErrStopped as its cause, when done does.
func withStop(ctx context.Context, done context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	release := context.AfterFunc(done, func() { cancel(ErrStopped) })
	return ctx, func() {
		release()
		cancel(nil)
	}
}
