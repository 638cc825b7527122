// Package deltafifo queues the changes of a collection for one consumer: a handler of an informer, or a
// program that stores what a reflector delivers.
//
//	producer ── Add, Replace, Sync, Mark ──► Queue ── Pop ──► consumer
//
// A Queue is a data structure: it starts no goroutines. Only Pop and WaitForRoom wait, and they
// hold no lock while they do.
//
// # Guarantees
//
//  1. Adding never waits. Producers of a Block queue call WaitForRoom to wait while it is full.
//  2. Batches come out in the order in which they were added. Deltas of one object come out in order.
//  3. A consumer that keeps up gets the very slices that were added. Nothing is copied, so any number of queues
//     can share a slice.
//  4. Under Coalesce, deltas that are added while the consumer is behind are merged by key.
//     Applying every batch yields the same state as applying every single delta; Old is always the
//     state that the consumer saw last. At most one entry is pending for each key after each
//     pending collection. Once most of what is pending has been deleted again, further collections
//     are merged too: a consumer that hangs while objects come and go does not accumulate them.
//  5. Under Coalesce, an object that was created and deleted before the consumer saw it does not
//     appear, unless it was added or deleted with a collection. One that was deleted and created
//     again results in both deltas, next to each other.
//  6. Under Block and Unbounded, every delta comes out as it was added.
//  7. Replace supersedes everything that is pending. A mark is never lost. At most one Refilter is pending.
//  8. Memory for a burst is released once the queue is empty. A closed queue holds nothing.
//
// In other words: a handler that keeps up sees every change; a slow one sees the latest state of
// every object, and each deletion that was followed by another object of the same name. Neither
// makes the others wait, unless it asks for that.
package deltafifo
