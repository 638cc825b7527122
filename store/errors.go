package store

import "fmt"

// WaitError is returned by Store.WaitFor when its context ends before the store has caught up.
type WaitError struct {
	// Want is the resource version that was waited for, Have the one that the store was current to.
	Want, Have string
	// Err is the cause of the context's end.
	Err error
}

// Error says what was waited for and how far the store was.
func (e *WaitError) Error() string {
	have := "no resource version yet"
	if e.Have != "" {
		have = "resource version " + e.Have
	}
	return fmt.Sprintf("waiting for resource version %s: the store is at %s: %v", e.Want, have, e.Err)
}

// Unwrap returns the cause of the context's end.
func (e *WaitError) Unwrap() error { return e.Err }
