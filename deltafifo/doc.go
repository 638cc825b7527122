// Package deltafifo holds the changes of a collection until one consumer takes them: a handler of an informer, or a
// program that stores what a reflector brings.
//
//	producer ── Add, Replace, Sync, Mark ──► Queue ── Pop ──► consumer
//
// A Queue is a data structure: it starts no goroutine. Only Pop and WaitForRoom wait, and they hold no lock while they do.
//
// # Guarantees
//
//  1. Adding never waits. A Block queue that is full tells its producers so through WaitForRoom.
//  2. Batches come out in the order in which they went in. Deltas of one object come out in order.
//  3. A consumer that keeps up gets the very slices that were added. Nothing is copied, so that any number of queues
//     can share a slice.
//  4. Under Coalesce, what is added while the consumer is behind is merged by key. The consumer has, once the queue is
//     empty, the state that every single delta would have led to; Old is always the state that it saw last. At most one
//     entry is pending for each key behind each pending collection.
//  5. Under Coalesce, an object that came and went before the consumer looked is not mentioned, unless it came or went with a collection. One that was deleted and
//     created again gives both deltas, next to each other.
//  6. Under Block and Unbounded, every delta comes out as it went in.
//  7. Replace supersedes all that is pending. A mark is never lost.
//  8. Memory that a burst needed is given back once the queue is empty. A closed queue holds nothing.
//
// In other words: a handler that is quick enough sees every change; a slow one sees the latest state of every object, and
// each deletion that made room for another object of the same name. Neither makes the others wait, unless it asked to.
package deltafifo
