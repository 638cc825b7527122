// Package replica keeps the objects of resources current, and a journal of their last changes, for any number of
// readers.
//
//	reflector --> Collection: store, the objects as snapshots; journal, the last changes, some with the snapshot after
//	                 |
//	request --> View: List, a snapshot less the changes after a version; After, the changes after a position
//
// A Resource finds out what it is called and runs its reflector. A Collection has what the reflector delivers.
// Freshness proves that it is as new as the API server. A View is how one request reads a collection.
//
// # Guarantees
//
//  1. A list is the state at exactly the version that it was asked for, or there is none.
//  2. Whoever reads a list does not hold up the reflector, watchers or other readers: under the lock, only the place in
//     the journal is found.
//  3. What was read before the server's history was rewritten, or before the resource was removed, is never taken for a
//     state of what came after it: that is another epoch.
package replica

import (
	"errors"
	"strconv"
)

// ErrForward is the error for what only the API server can answer.
var ErrForward = errors.New("only the API server can answer this")

// Format returns a version as the API has it.
func Format(version uint64) string { return strconv.FormatUint(version, 10) }
