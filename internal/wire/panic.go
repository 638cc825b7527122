package wire

import "fmt"

// PanicError is the error for an object whose decoding panicked.
type PanicError struct {
	Value any    // of the panic
	Stack []byte // as debug.Stack formats it
}

// Error returns a message with the panic's value, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("the decoder panicked: %v", e.Value) }
