// Package intake says how objects get from a source to the one who holds them. An object travels with what it was
// decoded from: its holder decodes it, and so decides whether it is decoded at all, relative to what, and what is
// known of it afterwards.
//
//	source ──Encoded──► Decoder ──Received──► source ──► reflector ──Change──► Holder
//
// A source that leaves decoding to the holder (source.HTTP) calls its Decoder for every object. What any other source
// delivers is a Received with nothing but an object. What packages of this module tell each other beyond that, and
// users do not see, are the Internals of public types.
package intake

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/object"
)

// Encoded is an object as it arrived. It is valid during the call of Decoder.Decode.
type Encoded[T object.Object] struct {
	// Data is the encoding of the object alone, without an envelope.
	Data []byte
	// Reuse says that an earlier state of the object may be returned again, or lend its parts. Only then Key, UID and
	// Version are set; they share memory with Data.
	Reuse   bool
	Key     object.Key
	UID     types.UID
	Version string
	// Stable says that a server always encodes an object of one version the same way, so that a state with the same
	// uid and version is this one. Custom resources, and so their metadata, are converted and defaulted on reading, by
	// rules that can change without a new version.
	Stable bool
	// Exact says that the object will be exactly what Data says, in protobuf. Trimmed objects are not, nor are those
	// that the caller writes to.
	Exact bool
	// Decode decodes the object as the source would alone. previous is an earlier state of it, whose parts it may
	// share, or the zero T. previousData is what previous was decoded from, or nil if that is not known; then previous
	// itself is compared with Data.
	Decode func(previous T, previousData []byte) (T, error)
}

// Is reports whether a state of the object with this uid and version is the one that arrived.
func (e *Encoded[T]) Is(uid types.UID, version string) bool {
	return e.Stable && version != "" && version == e.Version && uid == e.UID
}

// Received is an object that has arrived.
type Received[T object.Object] struct {
	// Object is the zero T only if it is Unchanged and has a State.
	Object T
	// State is what the holder knows of it besides; nil if that is nothing.
	State State
	// Unchanged says that it is the state that the holder has.
	Unchanged bool
}

// State is what a holder knows of an object that it has decoded, or that is unchanged. It is valid until the next call
// of Decoder.Begin or Holder.Change.
type State interface {
	// Key, UID and ResourceVersion identify an Unchanged object.
	Key() object.Key
	UID() types.UID
	ResourceVersion() string
}

// Key returns the object's key.
func (r *Received[T]) Key() object.Key {
	if r.Unchanged && r.State != nil {
		return r.State.Key()
	}
	return object.KeyOf(r.Object)
}

// UID returns the object's uid.
func (r *Received[T]) UID() types.UID {
	if r.Unchanged && r.State != nil {
		return r.State.UID()
	}
	return r.Object.GetUID()
}

// Version returns the object's resource version.
func (r *Received[T]) Version() string {
	if r.Unchanged && r.State != nil {
		return r.State.ResourceVersion()
	}
	return r.Object.GetResourceVersion()
}

// Decoder decodes the objects of one source, on the goroutine that reads from it.
type Decoder[T object.Object] interface {
	// Begin is called before objects are decoded that are then handed on together. Those before are not needed any
	// more.
	Begin()
	// Decode decodes an object, or returns the state that the holder has if it is unchanged.
	Decode(e *Encoded[T]) (Received[T], error)
}

// Previous is the Decoder of a caller that keeps objects open: it returns the caller's object under a key, or false. A
// nil Previous reuses nothing. The strings of the key are only valid during the call.
type Previous[T object.Object] func(key object.Key) (T, bool)

// Begin implements Decoder.
func (Previous[T]) Begin() {}

// Decode implements Decoder.
func (p Previous[T]) Decode(e *Encoded[T]) (r Received[T], err error) {
	var before T
	if e.Reuse {
		o, ok := p(e.Key)
		switch {
		case !ok || o.GetUID() != e.UID:
		case e.Is(o.GetUID(), o.GetResourceVersion()):
			return Received[T]{Object: o, Unchanged: true}, nil
		default:
			before = o
		}
	}
	r.Object, err = e.Decode(before, nil)
	return r, err
}

// Change is a change of an object on its way to the holder.
type Change[T object.Object] struct {
	object.Delta[T]
	// State and Unchanged are those of the Received. If both are set, Object is the zero T.
	State     State
	Unchanged bool
}

// Contents describes what a holder has before the reflector begins.
type Contents struct {
	// ResourceVersion is the version that the contents are current to. With "" and "0" the reflector begins with a
	// list.
	ResourceVersion string
	// Newest is the key of the most recently changed object, if there is one. The server's state of it shows whether
	// the server was restored from a backup without that change, and has passed the version since.
	Newest object.Key
	// List makes the reflector begin with a list nevertheless, which must not be older than ResourceVersion.
	List bool
}

// Holder keeps a collection that a reflector keeps current. Its methods are called on the goroutine that runs the
// reflector, one at a time.
type Holder[T object.Object] interface {
	Decoder[T]
	// Held returns the object under a key: every one that there is.
	Held(key object.Key) (T, bool)
	// Gather returns a Gathering for a list of about n objects.
	Gather(n int) Gathering[T]
	// Resume is called before the first request and returns what the holder has already, if anything: the reflector
	// then begins with a watch from there, after checking that the server has reached that version and has the same
	// history. An error counts as a failed request, after which Resume is called again.
	Resume(ctx context.Context) (Contents, error)
	// OnResume is called when a watch has been opened after Resume, unless the holder has had a list since. recent is
	// the server's most recent version at the preceding check; "" if versions cannot be compared or the check was
	// rejected. The server may still report on the watch that its version has expired. The context ends with the watch.
	OnResume(watch context.Context, recent string)
	// Change receives changes in order, of type Added, Updated or Deleted, and the version that they bring the
	// collection to; without changes it is a bookmark. The slice is only valid during the call.
	Change(changes []Change[T], version string)
	// Replace receives the complete collection at a version, in no particular order.
	Replace(objects object.Collection[T], version string)
}
