package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/workqueue"
)

// terminalError is the error returned by Terminal.
type terminalError struct{ error }

func (e terminalError) Unwrap() error { return e.error }

// Terminal marks an error of a Reconciler as one that retrying cannot fix, such as an invalid spec:
// the key is not reconciled again until something changes. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return terminalError{err}
}

// PanicError is the error that a panic in a Reconciler results in.
type PanicError struct {
	// Value is the value passed to panic.
	Value any
	// Stack is the goroutine's stack, as returned by debug.Stack.
	Stack []byte
}

// Error returns the value as text, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// TimeoutError is the cause with which the context of a reconcile that takes too long ends. It wraps
// context.DeadlineExceeded.
type TimeoutError struct {
	Key     object.Key
	Timeout time.Duration
}

// Error names the key and the timeout.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("reconcile of %s took longer than %v", e.Key, e.Timeout)
}

// Unwrap returns context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// work is the loop of a worker: it reconciles keys until the queue is shut down.
func (c *Controller) work(ctx context.Context) {
	for {
		key, err := c.queue.Get(ctx)
		if err != nil {
			return
		}
		if c.gate.blocks(key) {
			c.queue.Done(key)
			continue
		}
		c.process(ctx, key)
	}
}

// mayProcess returns the context for a reconcile of the key, and what to call after it. It returns false if another replica
// reconciles the key.
func (c *Controller) mayProcess(ctx context.Context, key object.Key) (work context.Context, end func(), ok bool) {
	if s := c.sharding.Load(); s != nil {
		return s.begin(ctx, key)
	}
	return ctx, func() {}, true
}

// errGoexit is the error of a reconcile that ended its goroutine, as testing.T.Fatal does.
var errGoexit error = &PanicError{Value: "runtime.Goexit was called"}

// process reconciles the key and handles the outcome, unless another replica does.
func (c *Controller) process(ctx context.Context, key object.Key) {
	ctx, end, ok := c.mayProcess(ctx, key)
	if !ok {
		c.queue.Forget(key)
		c.queue.Done(key)
		return
	}
	defer end()
	start := c.begin(key)
	result, err := Result{}, errGoexit
	defer func() { c.finish(ctx, key, result, err, time.Since(start)) }()
	result, err = c.call(ctx, key)
}

func (c *Controller) finish(ctx context.Context, key object.Key, result Result, err error, took time.Duration) {
	defer c.queue.Done(key)
	outcome, delay, err := inspect(result, err)
	defer c.end(key, outcome, took)
	switch outcome {
	case Succeeded:
		c.queue.Forget(key)
	case Requeued:
		c.queue.Forget(key)
		c.queue.AddAfter(key, max(result.RequeueAfter, delay))
	case GaveUp:
		c.queue.Forget(key)
		c.log.Error("reconcile failed with a terminal error", "key", key.String(), "error", err)
	default:
		c.retry(ctx, key, delay, err)
	}
}

// retry adds the key again after the limiter's delay, or after the API server's if that is longer. It does not log
// failures during shutdown.
func (c *Controller) retry(ctx context.Context, key object.Key, delay time.Duration, err error) {
	c.queue.AddWith(key, workqueue.AddOptions{RateLimited: true, Delay: delay, KeepPriority: true})
	if ctx.Err() != nil {
		return
	}
	attrs := []any{"key", key.String(), "error", err, "failures", c.queue.NumRequeues(key)}
	if p, ok := errors.AsType[*PanicError](err); ok {
		attrs = append(attrs, "stack", string(p.Stack))
	}
	c.log.Error("reconcile failed", attrs...)
}

// call calls the reconciler with its context, and turns a panic into an error.
func (c *Controller) call(ctx context.Context, key object.Key) (result Result, err error) {
	if timeout := c.options.Timeout; timeout > 0 {
		cause := &TimeoutError{Key: key, Timeout: timeout}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, cause)
		defer cancel()
		defer func() {
			if err != nil && context.Cause(ctx) == cause {
				c.counters.timeouts.Add(1)
				err = fmt.Errorf("%w: %w", cause, err)
			}
		}()
	}
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return c.reconcile(withRecorder(ctx, c.gate, key), key)
}

// inspect returns the outcome of a reconcile, and the delay that the API server asks for. It replaces an error whose
// methods panic, such as a nil pointer that was returned as an error.
func inspect(result Result, err error) (outcome Outcome, delay time.Duration, readable error) {
	defer func() {
		if v := recover(); v != nil {
			outcome, readable = Panicked, err
			if _, panicked := err.(*PanicError); !panicked { // otherwise the first panic is the one to report
				readable = &PanicError{Value: fmt.Sprintf("%v, in a method of the error %T: %v", v, err, err), Stack: debug.Stack()}
			}
		}
	}()
	if isThrottled(err) {
		return Requeued, throttledDelay, err
	}
	outcome = outcomeOf(result, err)
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return outcome, time.Duration(seconds) * time.Second, err
}

// throttledDelay is how long a key waits whose reconcile ended because of the client's own rate limit.
const throttledDelay = time.Second

// isThrottled reports whether nothing has gone wrong but that client-go would have had to wait longer for its own
// rate limit (rest.Config's QPS) than the context lasts. client-go has no type for that error.
func isThrottled(err error) bool {
	if err == nil {
		return false
	}
	if joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !isThrottled(err) })
	}
	return strings.Contains(err.Error(), "client rate limiter Wait returned an error: ")
}

func outcomeOf(result Result, err error) Outcome {
	if err == nil {
		if result.RequeueAfter > 0 {
			return Requeued
		}
		return Succeeded
	}
	if _, ok := errors.AsType[terminalError](err); ok {
		return GaveUp
	}
	if _, ok := errors.AsType[*PanicError](err); ok {
		return Panicked
	}
	return Failed
}

// begin records that the key is being reconciled.
func (c *Controller) begin(key object.Key) time.Time {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy[key] = now
	return now
}

// end records the outcome of the key's reconcile.
func (c *Controller) end(key object.Key, outcome Outcome, took time.Duration) {
	c.counters.outcomes[outcome].Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, key)
	c.reconcileTime.Observe(took)
}

// busyKeys returns the keys that are being reconciled, those running longest first.
func (c *Controller) busyKeys() []object.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.busy), func(a, b object.Key) int {
		return cmp.Or(c.busy[a].Compare(c.busy[b]), a.Compare(b))
	})
}

func (c *Controller) logMissedWrite(m missedWrite[object.Key]) {
	c.log.Warn("reconciling although a cache has not seen one of the key's writes", "key", m.key.String(), "write", m.write.String(),
		"waited", c.options.MaxGateWait)
}
