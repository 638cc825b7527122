// Package proto decodes the Kubernetes protobuf encoding of built-in types, storing equal parts once.
//
// A Decoder follows a plan that it compiles from the protobuf tags of the Go type, field by field,
// as fields are first seen. While it walks through the bytes of an object it looks parts that tend
// to repeat up by their encoding: strings, messages, runs of one repeated field, maps. A part found
// in the table is not decoded again; its Go value is shared. How often the values of a field were
// found decides whether it is looked up at all (see share.Rate).
//
// The result, and whether the data is valid, are those of the generated Unmarshal. "The same" means
// that apiequality.Semantic.DeepEqual holds and that Marshal gives the same bytes; the one
// difference that reflect.DeepEqual sees is that a Quantity already has its string cached, so that
// String never writes to a shared value.
//
// A new version of an object reuses the equal parts of the previous one: the spec as a whole by
// hashes (see version), the rest by comparing the encoding with what the previous version has at
// the same place. Lists, maps and pointer targets are compared before anything is allocated for
// them (see decoder.matches), and strings before they are looked up.
//
// A part that somebody has written to is never shared or reused: table values and specs have a checksum of their memory
// (see checksummer), and all other parts are compared with the encoding.
//
// # How an object is laid out
//
//	      ┌──────────────┐      ┌─ slices that only this object has
//	T ──► │ the struct   │ ───► ├─ one block with its own strings and byte slices
//	      └──────────────┘      ├─ one array with all times it points to
//	             │              └─ everything else that no other object has
//	             └────────────► values in the table, shared with other objects
//
// An object refers to memory of other objects only through the table, and to memory of its own
// earlier versions, of which it keeps a bounded amount alive (see version.held). Values in the
// table never refer to an object's own block. So dropping an object frees everything that was its
// own.
//
// # Irregular input
//
// An API server writes each singular field once and each repeated field in one run. Protobuf allows
// more; where the bytes use that, the object is decoded a second time in plain mode: nothing is
// looked up, nothing is deferred, and fields are merged in place as the generated code does.
package proto
