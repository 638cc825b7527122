// Package source gets objects from an API server: it lists them and watches them change.
//
// A ListerWatcher is where the way of one change begins. The ones here speak HTTP with streaming readers for
// protobuf and JSON (NewHTTP), wrap plain functions (Funcs), or sit on any client-go client (FromClient).
// A source does what it is asked, once: retrying, resuming and falling back is the reflector's work.
package source

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/tidings/tidings/object"
)

// ListerWatcher lists the objects of one collection and watches them change. Its methods may be called from
// several goroutines.
//
// A source may say what it is of, as those of this package do, by methods Scope() Scope and ObjectType() reflect.Type. Without the first, an informer of its own
// does not save what may be Secrets, and without the second one whose T is an interface neither folds nor saves.
type ListerWatcher[T object.Object] interface {
	// List reads one page of the collection and calls each for every object in it, in the server's order,
	// as the object arrives. An error that each returns ends the list and is returned as it is.
	// An error of the server is an apierrors.APIStatus that errors.As finds.
	List(ctx context.Context, opts ListOptions[T], each func(T) error) (ListResult, error)

	// Watch starts a watch. The caller closes the stream it gets; canceling ctx ends it as well.
	Watch(ctx context.Context, opts WatchOptions[T]) (Stream[T], error)
}

// ObjectType returns the Go type of a source's objects: T, or where T is an interface what the source's own method ObjectType() reflect.Type says.
func ObjectType[T object.Object](src ListerWatcher[T]) reflect.Type {
	t := reflect.TypeFor[T]()
	of, ok := src.(interface{ ObjectType() reflect.Type })
	if !ok || t.Kind() != reflect.Interface {
		return t
	}
	if told := of.ObjectType(); told != nil && told.Kind() == reflect.Pointer && told.AssignableTo(t) {
		return told
	}
	return t
}

// Previous returns the object that the caller holds under the key, in whatever version, and false if there is none. What
// it returns is shared and read-only. A source compares the object that arrives with it: a new version takes over the
// parts that are equal, and an object that cannot have changed is handed out again instead of being decoded (see HTTP
// for which these are). An object with another uid counts as another object.
//
// The strings of the key are valid during the call only. A source calls it while List or Next runs.
type Previous[T object.Object] func(key object.Key) (T, bool)

// Decode decodes an object in a source's place, for a caller that keeps objects encoded: see Codec.AppendReceived. previous is what Previous has just returned
// for it, or the zero T. Decode may call decode, which decodes it as the source does, with what previous was decoded from, or nil if that is not known: then
// the source compares previous itself with what comes. It returns what that returned, or an object that says all that the bytes say.
//
// A source need not call Decode for all objects, and does not for those that it makes something else of than the bytes say. What it returned goes through
// the source's checks. The bytes are valid during the call only. A source calls it while List or Next runs.
type Decode[T object.Object] func(data []byte, previous T, decode func(previousData []byte) (T, error)) (T, error)

// ListOptions says what to list. Its fields mean what they mean in metav1.ListOptions.
type ListOptions[T object.Object] struct {
	ResourceVersion      string
	ResourceVersionMatch string
	Continue             string
	// Limit is the most objects a page may hold; 0 leaves it to the server.
	Limit int64
	// Only limits the list to one object, if it has a name. A source that cannot do that lists all.
	Only object.Key
	// Previous may be nil.
	Previous Previous[T]
	// NoSharing says that the caller will write to the objects, so that nothing in them may be shared with others,
	// unless it is an unchanged object that Previous returned.
	NoSharing bool
	// Decode may be nil.
	Decode Decode[T]
	// Skip is called, in the place of each, for an item that cannot be decoded or does not belong to the collection,
	// if its key can be read. Without it such an item ends the list with the error, as one without a key always does.
	Skip func(*ObjectError)
}

// ListResult is what a list says about the collection as a whole.
type ListResult struct {
	// ResourceVersion is the version of the collection that the list shows.
	ResourceVersion string
	// Continue is the token for the next page, empty after the last one.
	Continue string
}

// WatchOptions says where a watch starts. Bookmarks are always asked for.
type WatchOptions[T object.Object] struct {
	ResourceVersion string
	// SendInitialEvents asks for the current objects as Added events, ended by a Bookmark with
	// InitialEventsEnd set (a "WatchList").
	SendInitialEvents bool
	// Timeout is how long the server shall keep the stream open, rounded up to seconds; 0 leaves it to the server.
	Timeout time.Duration
	// Previous may be nil.
	Previous Previous[T]
	// NoSharing says that the caller will write to the objects, as in ListOptions.
	NoSharing bool
	// Decode may be nil.
	Decode Decode[T]
}

// EventType says what an event means.
type EventType uint8

// The event types of the watch protocol. An ERROR event is not among them: it ends the stream, and Next returns
// it as an error. Invalid stands for one event that could not be understood, while the stream goes on.
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
	// ResourceVersion is the version that the event brings the watch to.
	ResourceVersion string
	// Err says why an Invalid event could not be understood. It is an *ObjectError if the key could be read.
	Err  error
	Type EventType
	// InitialEventsEnd marks the Bookmark behind the last initial event.
	InitialEventsEnd bool
}

// Stream is a running watch. Next and Close may be called from different goroutines, Next from one at a time.
type Stream[T object.Object] interface {
	// Next waits until at least one event is there, appends it and what else has arrived with it to buf
	// (at most some hundred events), and returns the result. io.EOF is a clean end by the server.
	// Events can come together with an error; they are valid and come before it.
	Next(buf []Event[T]) ([]Event[T], error)
	// Close ends the watch and releases its connection. It makes a waiting Next return. It is idempotent.
	Close() error
}

// Stats is what a source has done since it was made. All counts only grow.
type Stats struct {
	Bytes   uint64 // bytes of list and watch bodies read
	Objects uint64 // objects decoded
	Reused  uint64 // objects taken from Previous instead of being decoded
	// Corrupted counts parts that objects share and that were found to be written to; see HTTP.OnStrayWrite.
	Corrupted uint64
}
