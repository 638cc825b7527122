package workqueue

import "time"

// Stats is the state of a queue at one moment. The metrics named in the comments are the usual ones of Kubernetes
// components.
type Stats struct {
	// Name is the queue's name from its Options.
	Name string
	// Depth is the number of waiting items: workqueue_depth. DepthLow and DepthHigh are the numbers of those
	// with Low and High priority.
	Depth, DepthLow, DepthHigh int
	// Delayed is the number of delayed items.
	Delayed int
	// Working is the number of items that workers have.
	Working int
	// Adds counts the adds that made an item due, which excludes adds of items that were waiting already:
	// workqueue_adds_total.
	Adds uint64
	// Retries counts the adds with a delay or a rate limit: workqueue_retries_total.
	Retries uint64

	// The fields below stay zero in a queue without a name.

	// QueueDuration is how long items waited from the add that made them due until a worker got them:
	// workqueue_queue_duration_seconds.
	QueueDuration Histogram
	// WorkDuration is how long workers took for items that are done: workqueue_work_duration_seconds.
	WorkDuration Histogram
	// UnfinishedWork is the total time that workers have spent so far on the items they have now:
	// workqueue_unfinished_work_seconds.
	UnfinishedWork time.Duration
	// LongestRunning is the longest of these times: workqueue_longest_running_processor_seconds.
	LongestRunning time.Duration
}

// Stats returns the queue's state in constant time, so it may be called often.
func (q *Queue[T]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	lines := &q.schedule.queues
	s := Stats{
		Name:          q.name,
		Depth:         q.schedule.len(),
		DepthLow:      lines[Low.level()].waiting,
		DepthHigh:     lines[High.level()].waiting,
		Delayed:       len(q.delays.heap),
		Working:       q.working.len,
		Adds:          q.adds,
		Retries:       q.retries,
		QueueDuration: q.queueDuration,
		WorkDuration:  q.workDuration,
	}
	if first := q.working.first; first != nil && q.name != "" {
		now := q.now()
		s.UnfinishedWork = time.Duration(s.Working)*now - q.startedSum
		s.LongestRunning = now - first.started
	}
	return s
}
