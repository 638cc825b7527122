package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/workqueue"
)

// terminalError is what Terminal returns.
type terminalError struct{ error }

func (e terminalError) Unwrap() error { return e.error }

// Terminal marks an error of a Reconciler as one that trying again does not heal, such as a spec that makes no
// sense: the key is not reconciled again until something changes. Of nil it makes nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return terminalError{err}
}

// PanicError is the error that a panic of a Reconciler becomes.
type PanicError struct {
	// Value is what was given to panic.
	Value any
	// Stack is the stack of the goroutine, as debug.Stack returns it.
	Stack []byte
}

// Error returns the value in words, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// TimeoutError is the cause with which a reconcile's context ends when the reconcile takes too long. It is also a
// context.DeadlineExceeded.
type TimeoutError struct {
	Key     object.Key
	Timeout time.Duration
}

// Error says how long was too long.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("reconcile of %s took longer than %v", e.Key, e.Timeout)
}

// Unwrap returns context.DeadlineExceeded.
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// work is one worker: it reconciles key after key until the queue ends.
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

// errGoexit is what a reconcile gets that ended its goroutine, as testing.T.Fatal does.
var errGoexit error = &PanicError{Value: "runtime.Goexit was called"}

// process reconciles the key, and does with it what the outcome asks for.
func (c *Controller) process(ctx context.Context, key object.Key) {
	start := c.begin(key)
	result, err := Result{}, errGoexit
	defer func() { c.finish(ctx, key, result, err, time.Since(start)) }()
	result, err = c.call(ctx, key)
}

func (c *Controller) finish(ctx context.Context, key object.Key, result Result, err error, took time.Duration) {
	defer c.queue.Done(key)
	outcome := outcomeOf(result, err)
	defer c.end(key, outcome, took)
	switch outcome {
	case Succeeded:
		c.queue.Forget(key)
	case Requeued:
		c.queue.Forget(key)
		c.queue.AddAfter(key, result.RequeueAfter)
	case GaveUp:
		c.queue.Forget(key)
		c.log.Error("reconcile failed for good", "key", key.String(), "error", err)
	default:
		c.retry(ctx, key, err)
	}
}

// retry adds the key again after the limiter's delay, or after the API server's if that is longer. What fails
// because the controller is to end is not worth a word.
func (c *Controller) retry(ctx context.Context, key object.Key, err error) {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	delay := time.Duration(seconds) * time.Second
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

// call calls the reconciler with its context, and makes an error of a panic.
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

// begin notes that the key is being reconciled.
func (c *Controller) begin(key object.Key) time.Time {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy[key] = now
	return now
}

// end notes that the key's reconcile has ended, and how.
func (c *Controller) end(key object.Key, outcome Outcome, took time.Duration) {
	c.counters.outcomes[outcome].Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, key)
	c.reconcileTime.Observe(took)
}

// busyKeys returns the keys that are being reconciled, the longest running first.
func (c *Controller) busyKeys() []object.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.busy), func(a, b object.Key) int {
		return cmp.Or(c.busy[a].Compare(c.busy[b]), a.Compare(b))
	})
}

func (c *Controller) logMiss(m miss) {
	c.log.Warn("reconciling although a cache has not seen an own write", "key", m.key.String(), "write", m.write.String(),
		"waited", c.options.MaxGateWait)
}
