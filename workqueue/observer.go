package workqueue

import "time"

// Observer is told what becomes of a queue's items, for metrics that have to count each of them. Its methods are called with the queue's lock
// held: they must be quick and must not call the queue.
type Observer interface {
	// Added is told of an add that made an item due, as Stats.Adds counts them.
	Added()
	// Started is told that a worker got an item, and how long it had been due.
	Started(waited time.Duration)
	// Finished is told that a worker was done with an item, and how long it took.
	Finished(worked time.Duration)
}
