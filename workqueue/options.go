package workqueue

import "time"

// Options configures a Queue. The zero value is ready to use.
type Options[T comparable] struct {
	// Name is the queue's name in its Stats, for the label of metrics. A queue without a name does
	// not measure durations, and so does not read the clock for items without delay.
	Name string
	// RateLimiter decides how long AddRateLimited waits. Nil means DefaultRateLimiter.
	RateLimiter RateLimiter[T]
	// Flow returns the flow that an item belongs to, such as the namespace of a key. Flows take turns. It must
	// always return the same flow for an item. Nil puts all items into one flow.
	Flow func(item T) string
	// Observer observes every item. It may be nil, and is not used in a queue without a name.
	Observer Observer
}

// AddOptions configures an add. The zero value adds like Add.
type AddOptions struct {
	// Priority is the item's priority. An item that is waiting already is raised to it, but never lowered.
	Priority Priority
	// KeepPriority makes an item that a worker has keep the priority with which the worker got it, and ignores
	// Priority in that case. It is for workers that add their own item again.
	KeepPriority bool
	// Delay is the time before the item may be handed out. Zero or less means no delay.
	Delay time.Duration
	// RateLimited adds the item with a delay from the rate limiter. The longer one of that and Delay counts.
	RateLimited bool
}
