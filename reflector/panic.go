package reflector

import (
	"fmt"
	"runtime/debug"
)

// panicError is a panic that was recovered. It does not wrap its value, which may be an error that panics again.
type panicError struct {
	value any
	stack []byte
	// source says that it happened in the source, which could not make sense of what the server sent.
	source bool
}

func newPanicError(value any) *panicError { return &panicError{value: value, stack: debug.Stack()} }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// caught makes a panic of the source an error. It is deferred.
func (c *counters) caught(err *error) {
	if value := recover(); value != nil {
		c.panics.Add(1)
		e := newPanicError(value)
		e.source = true
		*err = e
	}
}

// contain only counts a panic: of a logger or of OnError, to which it cannot be reported, or of a stream that is closed. It
// is deferred.
func (c *counters) contain() {
	if recover() != nil {
		c.panics.Add(1)
	}
}
