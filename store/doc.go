// Package store holds the objects of one collection, indexed, and provides immutable snapshots of them. An informer
// keeps its objects in such a store; a program can also fill one by itself.
//
// A Writer changes the collection in transactions. A Store is the read side: it holds the newest Snapshot, and
// a Snapshot answers every read.
//
//	Writer ── Begin ──► Txn ── Set, Delete, Replace ─ Commit ┐ one atomic store
//	                                                         ▼
//	Store ── Snapshot() ───────────────────────────────► Snapshot: objects, indexes, resource versions
//	          one atomic load
//
// Take a snapshot, and all answers from it are consistent for as long as you hold it: it never changes. Readers never
// wait for the writer, the writer never waits for readers, and a transaction becomes visible as a whole. Iteration is
// sorted by namespace, then name, and may be stopped early. A resource version goes back in one case only: when
// Replace is told that the server's history was rewritten. Holding a snapshot for long costs the memory of what has
// changed since.
package store
