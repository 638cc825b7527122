// Package proto decodes the Kubernetes protobuf encoding of built-in types, storing equal parts once.
//
// A Decoder follows a plan that it compiles from the protobuf tags of the Go type, part by part, as the parts are
// first seen. While it walks through the bytes of an object it looks repeated parts up by their encoded bytes:
// strings, messages, runs of one repeated field, maps. A part that is in the table is not decoded again; its Go value
// is shared. Which fields are looked up at all is decided by how often they were found (see share.Rate).
//
// The result is what the generated Unmarshal gives, and so is the verdict on broken data. "The same" means that
// apiequality.Semantic.DeepEqual holds and that Marshal gives the same bytes; the one difference that
// reflect.DeepEqual sees is that a Quantity already holds its string, so that String never writes to a shared value.
//
// The new version of an object takes over what is equal in the one before: the spec as a whole by hashes (see version), the
// rest by comparing what is decoded with what the version before has at the same place. Whole lists and maps and
// what pointers refer to are compared before anything is allocated for them (see decoder.matches), and strings
// before they are looked up.
//
// Nothing is shared or taken over that somebody has written to: values of the table and specs have a checksum of their
// memory (see summer), all else is compared with the bytes.
//
// # How an object is laid out
//
//	      ┌──────────────┐      ┌─ slices of what is this object's own
//	T ──► │ the struct   │ ───► ├─ one block with its own strings and byte slices
//	      └──────────────┘      ├─ one array with all times it points to
//	             │              └─ whatever else no other object has
//	             └────────────► values in the table, shared with other objects
//
// An object refers to the memory of others only through the table, and to that of earlier versions of itself, of which
// it keeps a bounded part alive (see version.held). Values in the table never refer to an object's own block. So dropping an
// object frees all that was its own.
//
// # What the generated decoder does with odd input
//
// An API server writes each singular field once and each repeated field in one run. Where the bytes say otherwise, which
// protobuf allows, the object is decoded a second time in plain mode: nothing is looked up, nothing is put
// off, and fields are merged in place as the generated code does.
package proto
