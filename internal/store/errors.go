package store

import (
	"errors"
	"fmt"

	"github.com/tidings/tidings/object"
)

// ErrRewritten ends a wait for a resource version that may no longer exist, because the server's
// history was rewritten: it was restored from a backup, and lists an older collection than before.
var ErrRewritten = errors.New("the server's history was rewritten, and this version may no longer exist")

var (
	errNoObject    = errors.New("the codec returned nil")
	errOtherObject = errors.New("it is another object")
)

// WaitError is returned by Store.WaitFor and its variants if they end before the store has caught up.
type WaitError struct {
	// Namespace and Key are what was waited for: the object under Key if that is set, else the
	// namespace, or all if that is empty.
	Namespace string
	Key       object.Key
	// Want is the resource version that was waited for, Have the one that the namespace was current to, "" for none.
	Want, Have string
	// Err is the reason: the context's cause, ErrRewritten, or that the versions cannot be compared.
	Err error
}

// Error says what was waited for and how far the store had got.
func (e *WaitError) Error() string {
	have := "no resource version yet"
	if e.Have != "" {
		have = "resource version " + e.Have
	}
	what, where := "", "the store is"
	switch {
	case e.Key != object.Key{}:
		what = " of " + e.Key.String()
	case e.Namespace != "":
		what, where = " of namespace "+e.Namespace, "it is"
	}
	return fmt.Sprintf("waiting for resource version %s%s: %s at %s: %v", e.Want, what, where, have, e.Err)
}

// Unwrap returns the reason.
func (e *WaitError) Unwrap() error { return e.Err }
