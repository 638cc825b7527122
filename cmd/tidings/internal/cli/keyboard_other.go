//go:build !unix

package cli

import (
	"context"
	"io"
)

// Keyboard reads single keys from a terminal, which is not possible on this system.
type Keyboard struct{}

// OpenKeyboard returns ErrNoKeyboard.
func OpenKeyboard(context.Context, io.Reader) (*Keyboard, error) { return nil, ErrNoKeyboard }

// Keys returns a channel without keys.
func (*Keyboard) Keys() <-chan string { return nil }

// Close does nothing.
func (*Keyboard) Close() {}
