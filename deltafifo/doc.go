// Package deltafifo holds changes to objects on their way: Queue those that wait to be stored, Pending those that
// wait for one subscriber.
//
//	producers ── Add, Replace ──► Queue ── Pop ──► store ──► Pending ── Take ──► one subscriber
//	(one a part)                                             (one each)
//
// Both are plain data structures: they start no goroutines, and nothing in them waits.
//
// # Guarantees of Queue
//
//  1. The changes of one part come out in the order in which they went in. The parts share no objects, so that
//     there is no order between them.
//  2. A batch holds the changes of one part, and the resource version that it brings the part to.
//  3. Replace supersedes what its part has pending. It comes out as the difference to what is known when it
//     comes out, sorted by key.
//  4. No difference takes an object back in time: what a list shows older than it is known is left out, and an
//     object that is known newer than the whole list is not missing from it.
//  5. Up to Options.Limit pending changes of a part come out one by one. Beyond that, changes to one object are
//     merged: a part then holds at most two for each key. Objects that come and go in the meantime do not
//     add up.
//  6. Memory that a burst needed is given back once it is over.
//
// In other words: who reads the queue in time sees every change; who is late sees every object's latest state,
// and every deletion in between that made room for another object of that name.
//
// # Guarantees of Pending
//
//  1. It holds at most one entry for each key.
//  2. Who applies what Take returns has, once it is empty, the state of who applied every change.
//  3. The changes of one key come out in order. An entry keeps the place of the first change that it merges.
//  4. A subscriber is told of no object that came and went before it looked; and when an object has been
//     replaced by another of the same name, it is told of both the end and the beginning.
//  5. Push costs the same however much is pending, and allocates nothing once warm. Memory that a burst needed is
//     given back once it is over.
package deltafifo
