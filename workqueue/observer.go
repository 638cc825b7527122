package workqueue

import "time"

// Observer observes a queue's items, for metrics that have to count each of them. Its methods are
// called with the queue's lock held: they must be quick and must not call the queue. A panic goes
// through to whoever called the queue. If that is in Added, Raised or Finished, nothing was added,
// raised or finished; if it is in Started, the item counts as handed out. Nobody can recover a panic of Added
// for an item of AddAfter or AddRateLimited that has become due: it ends the process.
type Observer interface {
	// Added is called for an add that makes an item due, as counted by Stats.Adds, with the item's priority.
	Added(Priority)
	// Raised is called when an item that is due and waits for a worker gets a higher priority.
	Raised(from, to Priority)
	// Started is called when a worker gets an item, with its priority and the time since it became due.
	Started(p Priority, waited time.Duration)
	// Finished is called when a worker is done with an item, with the time it took.
	Finished(worked time.Duration)
}
