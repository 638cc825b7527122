// Package store holds the objects of one collection, indexed, and provides immutable snapshots of them.
//
// A Writer changes the collection in transactions. A Store is the read side: it holds the newest Snapshot, and
// a Snapshot answers every read.
//
//	Writer ── Begin ──► Txn ── Set, Delete, Replace ─ Commit ┐ one atomic store
//	                                                         ▼
//	Store ── Snapshot() ───────────────────────────────► Snapshot ── resource versions
//	          one atomic load                             │   │
//	                                                   keys    indexes, one tree each
//	                                      (namespace, name)    (value, namespace, name)
//	                                                      └─┬─┘
//	                                                      slots ──► objects
//
// An object has a slot, a number, for as long as its key is in the store. Keys and indexes are the
// same structure, a B-tree from sorted keys to slots; the slots are an array in pages. A new state
// of an object changes only its slot, unless it moves in an index. A hash table in pages of the
// same kind finds the slot of a single key faster than the tree. Pages and nodes do not change once
// they are published: a transaction copies those on the path to a change once, and edits its copies
// in place; all others are shared between the snapshots before and after it. So the larger the
// batch, the cheaper each write.
//
// In a store with a codec (Writer.UseCodec) objects can be folded: instead of an object, a slot has
// an entry with the object's packed encoding. Reading it opens the object; while somebody holds an
// opened object, other readers get the same one. Txn.Fold and Gathering fold objects; a new state
// of an object is open. Without a codec none of this costs anything.
//
// # Guarantees
//
//  1. A snapshot never changes. It holds the objects, all indexes and the resource versions of one
//     moment: nobody sees a version before the objects that it stands for.
//  2. Taking a snapshot costs one atomic load. Reading one takes no lock: readers never wait for
//     the writer, the writer never waits for readers, and readers do not wait for each other. The
//     only exception is the table of opened objects, which has sixteen locks, each held for one
//     lookup.
//  3. A transaction becomes visible as a whole at Commit, or not at all.
//  4. A resource version goes back in one case only: when Replace is told that the server's history
//     was rewritten. Waits for a newer one then end with ErrRewritten.
//  5. Iteration is sorted by namespace, then name. It allocates nothing per item, and may be stopped early.
//  6. Anything that no snapshot in use refers to is garbage: the store keeps nothing of a replaced or deleted object.
//  7. An index agrees with the objects of its snapshot. A query for an index that a snapshot does
//     not have examines every object of that snapshot: slower, never wrong.
//  8. An index function that panics costs its object the values in that index, nothing else.
//  9. A forbidden write to a cached object never makes an index lead to another object or to none.
//     If it changed an indexed value, the index is rebuilt when the object is replaced or deleted,
//     and the write is reported.
//  10. A folded object equals the one that was folded, and one snapshot never returns two different
//     objects for one key at a time.
//  11. Replace takes no object back in time, unless history was rewritten, and reports every change that it makes.
//
// Put plainly: take a snapshot, and all answers from it are consistent for as long as you hold it. Holding one for long
// costs the memory of what has changed since.
//
// The package starts no goroutines. Nodes that carry the number of the transaction that may edit them are an idea
// of Clojure's transients; cilium/statedb uses it the same way.
package store
