package workqueue

import "time"

// Metrics receives what a histogram needs; all else is in Stats. Its methods are called without a lock held,
// from the goroutines that use the queue, and should be quick.
type Metrics interface {
	// ObserveQueueDuration is told how long an item waited from the add that made it due until a worker got
	// it: workqueue_queue_duration_seconds.
	ObserveQueueDuration(d time.Duration)
	// ObserveWorkDuration is told how long a worker had an item: workqueue_work_duration_seconds.
	ObserveWorkDuration(d time.Duration)
}

// Stats is the state of a queue at one moment.
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
	// UnfinishedWork is the sum of the times that the items in work have been so:
	// workqueue_unfinished_work_seconds. It is zero in a queue without Metrics.
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
		Name:      q.name,
		Depth:     q.schedule.len(),
		DepthLow:  lines[Low.level()].waiting,
		DepthHigh: lines[High.level()].waiting,
		Delayed:   len(q.delayed),
		Working:   q.working.len,
		Adds:      q.adds,
		Retries:   q.retries,
	}
	if first := q.working.first; first != nil && q.metrics != nil {
		now := q.now()
		s.UnfinishedWork = time.Duration(s.Working)*now - q.startedSum
		s.LongestRunning = now - first.started
	}
	return s
}
