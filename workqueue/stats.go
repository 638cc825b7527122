package workqueue

import "time"

// Stats is the state of a queue at one moment. The names in the comments are those of the metrics that every Kubernetes
// component has.
type Stats struct {
	// Name is the one in the queue's Options.
	Name string
	// Depth is the number of items that wait: workqueue_depth. DepthLow and DepthHigh are those of it that
	// wait at other priorities than Normal.
	Depth, DepthLow, DepthHigh int
	// Delayed is the number of items whose time has not come.
	Delayed int
	// Working is the number of items that workers have.
	Working int
	// Adds counts the adds that made an item due, so without those of an item that waited already:
	// workqueue_adds_total.
	Adds uint64
	// Retries counts the adds that asked for a delay or a rate limit: workqueue_retries_total.
	Retries uint64

	// What follows stays zero in a queue without a name.

	// QueueDuration has how long items waited from the add that made them due until a worker got them:
	// workqueue_queue_duration_seconds.
	QueueDuration Histogram
	// WorkDuration has how long workers had items that are done: workqueue_work_duration_seconds.
	WorkDuration Histogram
	// UnfinishedWork is the sum of the times that workers have had the items they still have:
	// workqueue_unfinished_work_seconds.
	UnfinishedWork time.Duration
	// LongestRunning is the greatest of these times: workqueue_longest_running_processor_seconds.
	LongestRunning time.Duration
}

// Stats returns the queue's state. It takes constant time, so it may be called often.
func (q *Queue[T]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	lines := &q.schedule.lines
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
