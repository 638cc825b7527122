// Package source lists and watches the objects of an API server.
//
// Every change enters the stack through a ListerWatcher. The implementations here speak HTTP with streaming readers for
// protobuf and JSON (NewHTTP), wrap plain functions (Funcs), or use any client-go client (FromClient).
// A source makes each request once: retrying, resuming and falling back are up to the reflector.
package source

import (
	"context"
	"fmt"
	"time"

	"github.com/tidings/tidings/object"
)

// ListerWatcher lists and watches the objects of one collection. Its methods may be called from several goroutines.
//
// A source can describe itself, as those of this package do, with the methods Scope() Scope and
// ObjectType() reflect.Type. A standalone informer over a source without the first does not save
// objects that may be Secrets. Without the second, an informer whose T is an interface neither
// folds nor saves objects.
type ListerWatcher[T object.Object] interface {
	// List reads one page of the collection and calls each for every object in it, in the server's order,
	// as the object arrives. An error returned by each ends the list and is returned unchanged.
	// For an error from the server, errors.As finds an apierrors.APIStatus.
	List(ctx context.Context, opts ListOptions[T], each func(T) error) (ListResult, error)

	// Watch starts a watch. The caller must close the returned stream; canceling ctx ends it as well.
	Watch(ctx context.Context, opts WatchOptions[T]) (Stream[T], error)
}

// Previous returns the caller's current version of the object with this key, or false if there is
// none. The returned object is shared and read-only. A source compares it with the object that
// arrives: a new version reuses the parts that are equal, and an object that cannot have changed is
// returned again instead of being decoded (see HTTP for when that is the case). An object with
// another uid counts as another object.
//
// The strings of the key are only valid during the call. A source calls Previous while List or Next runs.
type Previous[T object.Object] func(key object.Key) (T, bool)

// ListOptions says what to list. ResourceVersion, ResourceVersionMatch, Continue and Limit are as
// in metav1.ListOptions.
type ListOptions[T object.Object] struct {
	ResourceVersion      string
	ResourceVersionMatch string
	Continue             string
	// Limit is the maximum number of objects in a page; 0 leaves it to the server.
	Limit int64
	// Only limits the list to one object, if it has a name. A source that cannot do that lists all.
	Only object.Key
	// Previous may be nil.
	Previous Previous[T]
	// NoSharing is set if the caller will write to the objects: nothing in them may be shared with
	// others, except that an unchanged object from Previous is returned as it is. What the caller
	// removes from an object should not be kept in memory by the rest of it.
	NoSharing bool
	// Skip, if set, is called instead of each for an item that cannot be decoded or does not belong
	// to the collection, provided that its key can be read. If it is nil, such an item ends the
	// list with an error; one without a readable key always does.
	Skip func(*ObjectError)
}

// ListResult describes the listed collection as a whole.
type ListResult struct {
	// ResourceVersion is the collection's version at which it was listed.
	ResourceVersion string
	// Continue is the token for the next page, empty after the last one.
	Continue string
}

// WatchOptions says what to watch. Bookmarks are always requested.
type WatchOptions[T object.Object] struct {
	ResourceVersion string
	// SendInitialEvents requests the current objects as Added events, followed by a Bookmark with
	// InitialEventsEnd set (a "WatchList").
	SendInitialEvents bool
	// Timeout is how long the server should keep the stream open, rounded up to seconds; 0 leaves it to the server.
	Timeout time.Duration
	// Previous may be nil.
	Previous Previous[T]
	// NoSharing is set if the caller will write to the objects, as in ListOptions.
	NoSharing bool
}

// EventType is the type of a watch event.
type EventType uint8

// The event types of the watch protocol. ERROR is not among them: it ends the stream, and Next returns
// it as an error. Invalid stands for a single event that could not be decoded; the stream continues.
const (
	Added EventType = iota + 1
	Modified
	Deleted
	Bookmark
	Invalid
)

var eventTypeNames = [...]string{Added: "ADDED", Modified: "MODIFIED", Deleted: "DELETED", Bookmark: "BOOKMARK", Invalid: "INVALID"}

// String returns the type as the protocol spells it.
func (t EventType) String() string {
	if int(t) < len(eventTypeNames) && eventTypeNames[t] != "" {
		return eventTypeNames[t]
	}
	return fmt.Sprintf("EventType(%d)", uint8(t))
}

// Event is one event of a watch.
type Event[T object.Object] struct {
	// Object is set for Added, Modified and Deleted.
	Object T
	// ResourceVersion is the version that the watch has reached with the event.
	ResourceVersion string
	// Err says why an Invalid event could not be decoded. It is an *ObjectError if the key could be read.
	Err  error
	Type EventType
	// InitialEventsEnd marks the Bookmark that follows the last initial event.
	InitialEventsEnd bool
}

// Stream is a running watch. Next and Close may be called from different goroutines, but Next only by one at a time.
type Stream[T object.Object] interface {
	// Next waits for at least one event, appends it and the others that have arrived with it to buf
	// (at most several hundred events), and returns the result. io.EOF means that the server ended the watch cleanly;
	// ErrEnded, which wraps it, that the source cannot tell.
	// Events may be returned together with an error; they are valid and precede it.
	Next(buf []Event[T]) ([]Event[T], error)
	// Close ends the watch and releases its connection. It makes a waiting Next return. It is idempotent.
	Close() error
}

// Stats counts what a source has done since it was created.
type Stats struct {
	Bytes   uint64 // bytes of list and watch bodies read
	Objects uint64 // objects decoded
	Reused  uint64 // objects taken from Previous instead of being decoded
	// Corrupted counts shared parts of objects that were found to have been written to; see HTTP.
	Corrupted uint64
	// FromFunctions is why the objects are what functions of the program, or a client that it gave, return, which
	// decode them. It is empty if the source itself decodes what the server sends.
	FromFunctions string
}
