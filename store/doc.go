// Package store holds the objects of one collection, indexed, and hands out immutable snapshots of them.
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
// An object has a slot, a number, for as long as its key is in the store. Keys and indexes are the same structure, a
// B-tree from sorted keys to slots; the slots are an array in pages. A new state of an object changes its slot and
// nothing else, unless it moves in an index. A hash table in pages of the same kind finds the slot of a single key
// quicker than the tree. No page or node is changed once it is published: a transaction copies those on
// the path to what it changes, once, and edits its copies in place; all others are shared between the snapshots
// before and after it. A larger batch thus costs less for each write.
//
// In a store with a codec (Writer.UseCodec) a slot has an object or, beside it, an entry with the packed encoding of one. Reading
// that opens it, and who reads it while somebody holds what was opened gets the same object. Txn.Fold and Gathering fold; a new state
// of an object is open. Without a codec nothing of this costs anything.
//
// # Guarantees
//
//  1. A snapshot never changes. It holds the objects, all indexes and the resource versions of one moment: nobody sees a
//     version before the objects that it stands for.
//  2. Taking a snapshot costs one atomic load. Reading one takes no lock: readers never wait for the writer,
//     the writer never waits for readers, and readers do not wait for each other. Only the table of what is open of the folded objects
//     has locks, sixteen of them, each held for one lookup.
//  3. A transaction becomes visible as a whole at Commit, or not at all.
//  4. A resource version goes back in one case only: Replace says that the server's history was rewritten. Waits for
//     a newer one then end with ErrRewritten.
//  5. Iteration is sorted by namespace, then name. It allocates nothing for an item, and it may be broken off.
//  6. What no snapshot in use refers to is garbage: the store keeps nothing of a replaced or deleted object.
//  7. An index agrees with the objects of its snapshot. An index that a snapshot does not have is answered by
//     looking at every object of that snapshot: slower, never wrong.
//  8. An index function that panics costs its object the values in that index, nothing else.
//  9. A write to a cached object, which nobody may do, never makes an index lead to another object or to none. Where it changed
//     an indexed value, the index is made anew when the object is replaced or deleted, and that is reported.
//  10. A folded object equals the one that was folded, and one snapshot never hands out two objects for one key at the same time.
//  11. Replace takes no object back in time, unless history was rewritten, and tells of every change that it makes.
//
// Put plainly: take a snapshot, and everything you ask it fits together for as long as you hold it. Holding one
// for long costs the memory of what has changed since.
//
// The package starts no goroutines. That nodes carry the number of the transaction that may edit them is an idea
// of Clojure's transients; cilium/statedb uses it the same way.
package store
