package reflector

import (
	"fmt"
	"runtime/debug"
)

// panicError is a recovered panic. It does not wrap the panic's value, which may be an error that panics again.
type panicError struct {
	value any
	stack []byte
	// source says that it happened in the source, which must have failed to decode something from the server.
	source bool
}

// newPanicError returns a panic that is being recovered. A value that has the stack of another
// goroutine brings that along.
func newPanicError(value any) *panicError {
	if elsewhere, ok := value.(interface{ Stack() []byte }); ok {
		return &panicError{value: value, stack: elsewhere.Stack()}
	}
	return &panicError{value: value, stack: debug.Stack()}
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// recoverSource is deferred to turn a panic in the source into an error.
func (c *counters) recoverSource(err *error) {
	if value := recover(); value != nil {
		c.panics.Add(1)
		e := newPanicError(value)
		e.source = true
		*err = e
	}
}

// recoverAndCount is deferred to recover and only count a panic: one in a logger or OnError, to
// which it cannot be reported, or in closing a stream.
func (c *counters) recoverAndCount() {
	if recover() != nil {
		c.panics.Add(1)
	}
}
