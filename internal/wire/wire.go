// Package wire turns encoded objects into typed ones, storing equal parts only once.
//
// The decoders are in two sub-packages: proto for the Kubernetes protobuf encoding and json for
// JSON. This package holds what they have in common.
package wire

import (
	"maps"
	"unsafe"

	"github.com/tidings/tidings/internal/wire/patch"
)

// Decoder decodes objects of one type. It keeps tables of the parts it has seen, so that equal
// parts of different objects share memory: the objects it returns are read-only. Only one goroutine
// at a time may use a Decoder, except that Stats may be called from any.
type Decoder[T any] interface {
	// Decode decodes one object from data and keeps no reference to data. previous is an earlier
	// version of the object, or the zero T. It is only read. Parts of it may become parts of the
	// result, but only after comparing them with data, so it is harmless if somebody has written to
	// it or if it is a different object. Malformed data returns an error, never a panic, and the
	// zero T.
	Decode(data []byte, previous T) (T, error)
	// Recheck makes the decoder verify shared parts again before it reuses them. Call it before
	// decoding a batch if others may have received the objects of the previous one. A part is
	// verified once per batch: a write after that, which the rules forbid, reaches every object of
	// the batch that shares the part.
	Recheck()
	// Peek finds the identity of the object in data without decoding it. The slices of meta point
	// into data. If the identity cannot be found cheaply, ok is false; that is not an error.
	Peek(data []byte) (meta Meta, ok bool)
	// Stats returns the decoder's counters.
	Stats() Stats
}

// Patcher is a Decoder of objects that are stored as patches (see package patch).
type Patcher[T any] interface {
	Decoder[T]
	patch.Decoder[T]
	// Update is like Decode, for callers that know the bytes that previous was decoded from, by a
	// decoder with the same trims. Parts whose encoding is unchanged become parts of the result
	// without being compared, so nobody may have written to previous. The memory they keep alive is
	// not counted either, so previous should not itself be a result of Update. If encoded is empty,
	// Update is Decode.
	Update(data []byte, previous T, encoded []byte) (T, error)
	// NewDiffer returns a Differ that shares nothing with the decoder.
	NewDiffer() Differ
}

// Differ makes patches of encoded objects. Only one goroutine at a time may use it.
type Differ interface {
	// Diff appends to dst a patch that turns base into data. Both are encoded objects whose first
	// head bytes are equal. It returns false, and dst unchanged, if the patch would be longer than
	// most bytes or if the two cannot be compared, for example because their fields are not in the
	// order of their numbers, as every server writes them. Applying the patch yields exactly data.
	Diff(dst []byte, head int, base, data []byte, most int) ([]byte, bool)
}

// RecheckEvery is the number of objects after which a decoder rechecks on its own.
const RecheckEvery = 1024

// Options says how to decode. The zero value shares everything and trims nothing.
type Options struct {
	// Trim lists fields to skip in the bytes; see object.Trim for the notation.
	Trim []string
	// NoSharing makes decoded objects share nothing, so that their owners may write to them. Each
	// part of an object has memory of its own, which is freed when the owner removes that part from
	// it.
	NoSharing bool
	// KeepBytes makes an object's strings point into one copy of its encoding, which lives as long
	// as any of them, and shares only what often repeats: lists, maps, and pointer targets. It is
	// the fastest way to decode single objects that are dropped soon. Only the protobuf decoder
	// supports it, and it copies the strings of objects over 32 KiB.
	KeepBytes bool
	// NoVersions says that Decode is never given previous versions, so the decoder need not remember what it returned.
	NoVersions bool
	// WithoutPlan is how many objects the protobuf decoder leaves to the type's own Unmarshal before it makes a plan,
	// which takes memory. They share nothing. It counts as 0 with Trim or KeepBytes, which need a plan.
	WithoutPlan int
	// OnStrayWrite, if not nil, is called after an object was decoded, on the decoding goroutine,
	// for each shared part that somebody has written to. field is the dotted name of the field
	// where it was found. The part is not shared again.
	OnStrayWrite func(field string)
	// MaxTableBytes bounds the memory of the tables; 0 means a default that suits a collection of any size.
	MaxTableBytes int
	// Seed makes random sharing decisions repeatable; 0 picks a random one. The hash that finds
	// equal parts is always seeded unpredictably.
	Seed uint64
}

// Meta is the identity of an object.
type Meta struct {
	Namespace, Name, UID, ResourceVersion []byte
}

// View returns b as a string that shares its memory, which must not change as long as the string is used.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Stats holds a decoder's counters. All but TableBytes and TableEntries only grow.
type Stats struct {
	Objects      uint64 // objects decoded
	Bytes        uint64 // their encoded bytes
	Lookups      uint64 // parts looked up in the tables
	Hits         uint64 // lookups that found a shared part
	SharedBytes  uint64 // encoded bytes that hits saved decoding
	Corrupted    uint64 // shared parts that somebody had written to
	TableBytes   uint64 // current memory of the tables
	TableEntries uint64
	PlanBytes    uint64 // memory of the decoding plan for the type, which grows as new fields are seen
	// Fields has the lookups of each field, by dotted name. It may be nil.
	Fields map[string]FieldStats
}

// FieldStats is the sharing rate of one field.
type FieldStats struct {
	Lookups, Hits, Bytes, SharedBytes uint64
}

// Plus returns the sum of two decoders' counters.
func (a Stats) Plus(b Stats) Stats {
	sum := Stats{
		Objects: a.Objects + b.Objects, Bytes: a.Bytes + b.Bytes,
		Lookups: a.Lookups + b.Lookups, Hits: a.Hits + b.Hits, SharedBytes: a.SharedBytes + b.SharedBytes,
		Corrupted:  a.Corrupted + b.Corrupted,
		TableBytes: a.TableBytes + b.TableBytes, TableEntries: a.TableEntries + b.TableEntries,
		PlanBytes: a.PlanBytes + b.PlanBytes,
		Fields:    maps.Clone(a.Fields),
	}
	if sum.Fields == nil {
		sum.Fields = make(map[string]FieldStats, len(b.Fields))
	}
	for name, f := range b.Fields {
		have := sum.Fields[name]
		have.Lookups += f.Lookups
		have.Hits += f.Hits
		have.Bytes += f.Bytes
		have.SharedBytes += f.SharedBytes
		sum.Fields[name] = have
	}
	return sum
}
