package tidings

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/engine"
	"github.com/tidings/tidings/reflector"
)

// Errors that callers test for with errors.Is.
var (
	// ErrNotStarted is returned, instead of hanging, by a wait on an informer that has not been started.
	ErrNotStarted = engine.ErrNotStarted
	// ErrStopped is returned by calls on an informer or factory that has been stopped, and by waits that
	// the stop interrupted.
	ErrStopped = engine.ErrStopped
	// ErrStarted is returned by calls that must be made before the informer starts.
	ErrStarted = engine.ErrStarted
	// ErrTransform is wrapped by errors that a faulty transform causes.
	ErrTransform = engine.ErrTransform
	// ErrSkipped is wrapped by the error of a wait for sync if the informer synced without some
	// objects because they cannot be decoded, and by the error of a Lookup of such an object.
	ErrSkipped = errors.New("objects that cannot be decoded were left out")
	// ErrOutOfScope is returned by a wait for an object or a namespace that the informer does not
	// hold, or stops holding.
	ErrOutOfScope = engine.ErrOutOfScope
)

// DivergedError reports that an audit found the store to differ from the server; see Options.Audit.
// It is the cause of a *reflector.Error with the reason Diverged. Its fields are Resource;
// Namespace, if the informer has several; ResourceVersion, the version at which the two were
// compared; Missing, Extra and Outdated, the number of objects that only the server has, that only
// the store has, and that differ; and First, the keys of some of them.
type DivergedError = engine.DivergedError

// PanicError reports that a function of the program panicked, or ended its goroutine with runtime.Goexit, and that the
// program went on. A handler does not get the notification again, so until the object's next change or a resync it
// lacks what that said; a deletion is never repeated. A program that cannot live with that may exit in
// Options.OnError. Its fields are Resource; Function, such as `handler "main.podHandler"` or `index "by-node"`; Delta,
// the type of the lost notification, 0 if it was none; Key, of the object; Value, what the function panicked with,
// nil after runtime.Goexit; and Stack, of a handler.
type PanicError = engine.PanicError

// SyncError says why an informer has not synced. It wraps the last error from the server or the network, and the
// error of the context that ended the wait.
type SyncError struct {
	// Resource names the informer: "pods", or "pods (labels app=web)" if the resource alone is ambiguous.
	Resource string
	// Namespace is the namespace that cannot be synced, if the informer has several.
	Namespace string
	// Cause is the present problem; nil if nothing has failed and the wait was merely too short.
	Cause *reflector.Error
	// Skipped lists objects that cannot be decoded: the informer has synced, but without them, or
	// with an older state of them. SkippedCount is their number; Skipped holds the first of them.
	Skipped      []SkippedObject
	SkippedCount int
	// Wait is the error that ended the wait; nil if the wait ended because Cause is permanent, or because of Skipped.
	Wait error
	// Progress says how far the informer has got, such as "listing, 1500 objects so far".
	Progress string
}

// SkippedObject is an object that cannot be decoded. The informer keeps its last known state, if any.
type SkippedObject struct {
	Key Key
	// Err says what is wrong with it.
	Err error
	// Since is when it was first skipped.
	Since time.Time
}

// SkippedError says that an object exists but cannot be decoded, and that no older state of it is
// known: it must not be taken for deleted. It is an API status error with the reason InternalError,
// so that code for client-go does not take it for NotFound either.
type SkippedError struct {
	// Resource names the informer, such as "pods".
	Resource string
	SkippedObject
}

// Error names the object and what is wrong with it.
func (e *SkippedError) Error() string {
	return fmt.Sprintf("%s %s exists but cannot be decoded: %v", e.Resource, e.Key, e.Err)
}

// Unwrap returns ErrSkipped, and the error of the object.
func (e *SkippedError) Unwrap() []error { return []error{ErrSkipped, e.Err} }

// Status returns the error as the API server would send it.
func (e *SkippedError) Status() metav1.Status {
	return metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: e.Error(),
		Details: &metav1.StatusDetails{Name: e.Key.Name, Kind: e.Resource},
	}
}

// Error returns one line in plain words, with advice if there is any.
func (e *SyncError) Error() string {
	switch {
	case e.SkippedCount > 0:
		return fmt.Sprintf("%s: synced without %s", e.Resource, skippedText(e.Skipped, e.SkippedCount))
	case e.Cause != nil && e.Namespace != "":
		return fmt.Sprintf("%s (namespace %q)", e.Cause, e.Namespace)
	case e.Cause != nil:
		return e.Cause.Error()
	case e.Wait != nil:
		return fmt.Sprintf("%s: not synced yet (%s): %v", where(e.Resource, e.Namespace), e.Progress, e.Wait)
	default:
		return fmt.Sprintf("%s: not synced yet (%s)", where(e.Resource, e.Namespace), e.Progress)
	}
}

// where names an informer, and the namespace if it is about one of several.
func where(resource, namespace string) string {
	if namespace == "" {
		return resource
	}
	return fmt.Sprintf("%s (namespace %q)", resource, namespace)
}

// skippedText names the first skipped objects.
func skippedText(skipped []SkippedObject, count int) string {
	const most = 3
	var names []string
	for _, s := range skipped[:min(most, len(skipped))] {
		names = append(names, fmt.Sprintf("%s (%v)", s.Key, s.Err))
	}
	if more := count - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%d objects that cannot be decoded: %s", count, strings.Join(names, ", "))
}

// Unwrap returns the reflector's error, the error that ended the wait, and ErrSkipped if objects were left out.
func (e *SyncError) Unwrap() []error {
	var errs []error
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	if e.Wait != nil {
		errs = append(errs, e.Wait)
	}
	if e.SkippedCount > 0 {
		errs = append(errs, ErrSkipped)
	}
	return errs
}

// Permanent reports whether waiting longer cannot help, because for example a permission, a
// resource or a certificate is missing.
func (e *SyncError) Permanent() bool { return e.Cause != nil && e.Cause.Permanent() }

// syncError returns the public error for an obstacle; nil if there is none.
func syncError(resource string, o *engine.Obstacle) error {
	if o == nil {
		return nil
	}
	return &SyncError{
		Resource: resource, Namespace: o.Namespace, Cause: o.Problem, Wait: o.Wait, Progress: o.Progress,
		Skipped: skippedObjects(o.Skipped), SkippedCount: o.SkippedCount,
	}
}

func skippedObjects(skipped []reflector.Skipped) []SkippedObject {
	var out []SkippedObject
	for _, s := range skipped {
		out = append(out, SkippedObject{Key: s.Key, Err: s.Err, Since: s.Since})
	}
	return out
}

// StopError is returned by Stop, Remove, Shutdown and SetNamespaces when their context ends before
// everything they wait for, such as the running calls of handlers, has ended.
type StopError struct {
	Resource string
	// Handlers names the handlers that are still running.
	Handlers []string
	Err      error
}

// Error names the handlers that are still running.
func (e *StopError) Error() string { return (*engine.StopError)(e).Error() }

// Unwrap returns the context's error.
func (e *StopError) Unwrap() error { return e.Err }

// stopError turns an engine's StopError into the public one.
func stopError(err error) error {
	if e, ok := errors.AsType[*engine.StopError](err); ok {
		return (*StopError)(e)
	}
	return err
}
