// Package wire turns encoded objects into typed ones, storing what is equal only once.
//
// The decoders are in its two sub-packages: proto for the Kubernetes protobuf encoding and json for
// unstructured JSON. This package says what they have in common.
package wire

// Decoder decodes objects of one type. It keeps tables of what it has seen, so that equal parts of several objects
// share memory: what it returns is read-only. A Decoder is used by one goroutine at a time; Stats may be called
// from any.
type Decoder[T any] interface {
	// Decode decodes one object from data, to which it keeps no reference. Previous is an earlier version of the object, or
	// the zero T. It is only read; parts of it that equal what is in data may become parts of the result, after they were
	// compared, so that it does no harm if somebody has written to it or if it is not an earlier version.
	// Broken data give an error, never a panic; the object is then the zero T.
	Decode(data []byte, previous T) (T, error)
	// Recheck makes the decoder check shared parts anew before further objects get them. It is to be called before the
	// objects of a batch are decoded, when those of the last batch may have come into other hands. A part is checked once
	// a batch: who writes to it later than that, against the rules, writes to what the objects of the batch share.
	Recheck()
	// Peek finds the identity of the object in data without decoding it. The slices of the result point into
	// data. Where it cannot find the identity cheaply it returns ok false, which is no error.
	Peek(data []byte) (meta Meta, ok bool)
	// Stats returns what the decoder has done so far.
	Stats() Stats
}

// Updater is a Decoder that needs not compare an object with what its previous version was decoded from.
type Updater[T any] interface {
	Decoder[T]
	// Update is Decode where it is known what the previous version was decoded from, by a decoder with the same trims. Parts that are
	// encoded as they were become parts of the result without being compared with the previous object: nobody may have written to that.
	// Nor is it counted what they keep alive, so the previous version should not be the result of an Update itself. Without an encoding
	// it is Decode.
	Update(data []byte, previous T, encoded []byte) (T, error)
}

// Patcher is a Decoder of objects that are known as patches (see package patch).
type Patcher[T any] interface {
	Decoder[T]
	// NewDiffer returns what makes patches. It shares nothing with the decoder.
	NewDiffer() Differ
	// DecodeBase decodes what patches are based on. The strings of the object may be parts of data, which nobody changes any more. It is an error if
	// data uses freedoms of the encoding that no server uses.
	DecodeBase(data []byte) (T, error)
	// Patched returns the object that a patch makes of the base, which was decoded from what the patch is based on. What the patch leaves as
	// it is becomes a part of the object without being looked at: nobody may have written to it. The base is only read.
	Patched(base T, patch []byte) (T, error)
	// Repatched is Patched where it is known what another patch has made of the base. What is the same in both becomes a part of the result without
	// being looked at: nobody may have written to that either.
	Repatched(base T, patch []byte, other T, otherPatch []byte) (T, error)
}

// Differ makes patches of encoded objects. It is used by one goroutine at a time.
type Differ interface {
	// Diff appends a patch to dst that makes data of base, both encoded objects behind so many bytes that they have in common. It
	// returns false, with dst as it was, if they cannot be compared, as those cannot that have fields in another order than that of their
	// numbers, which no server writes, or if the patch would have more than most bytes. Applying the patch gives exactly data again.
	Diff(dst []byte, head int, base, data []byte, most int) ([]byte, bool)
}

// RecheckEvery is the number of objects after which a decoder rechecks by itself.
const RecheckEvery = 1024

// Options says how to decode. The zero value shares everything and trims nothing.
type Options struct {
	// Trim lists fields to skip in the bytes; see object.Trim for the notation.
	Trim []string
	// NoSharing makes every decoded object stand alone, so that its owner may write to it.
	NoSharing bool
	// KeepBytes makes the strings of an object parts of one copy of its encoding, which lives as long as any of them, and only shares what
	// is often the same: lists, maps, and what pointers refer to. It is the quickest way to have single objects that are soon dropped. Only
	// the protobuf decoder does so, and copies the strings of objects over 32 KiB.
	KeepBytes bool
	// NoVersions says that Decode gets no previous versions, so that nothing need be remembered of what it returns.
	NoVersions bool
	// OnStrayWrite is called after an object was decoded, for each shared part that turned out to have been written to. Field is
	// the dotted name of where it came up. Such a part is given to no further object. It is called on the goroutine
	// that decodes, and may be nil.
	OnStrayWrite func(field string)
	// MaxTableBytes bounds the memory of the tables; 0 means a default that suits a collection of any size.
	MaxTableBytes int
	// Seed makes sharing decisions repeatable where they are random; 0 takes a random one. The hash that finds
	// equal parts is always seeded unguessably.
	Seed uint64
}

// Meta is the identity of an object.
type Meta struct {
	Namespace, Name, UID, ResourceVersion []byte
}

// Stats counts what a decoder did. All but TableBytes and TableEntries only grow.
type Stats struct {
	Objects      uint64 // objects decoded
	Bytes        uint64 // encoded bytes of them
	Lookups      uint64 // parts looked up in the tables
	Hits         uint64 // of these, found and shared
	SharedBytes  uint64 // encoded bytes that were not decoded because of hits
	Corrupted    uint64 // shared parts that were found to be written to
	TableBytes   uint64 // memory of the tables now
	TableEntries uint64
	PlanBytes    uint64 // memory of what the decoder knows of the type, which is more the more fields have come
	// Fields tells for each looked-up field, by its dotted name, how often it was found. It may be nil.
	Fields map[string]FieldStats
}

// FieldStats is the sharing rate of one field.
type FieldStats struct {
	Lookups, Hits, Bytes, SharedBytes uint64
}
