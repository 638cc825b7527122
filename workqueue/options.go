package workqueue

import "time"

// Options configure a Queue. The zero value works.
type Options[T comparable] struct {
	// Name is the queue's name in its Stats, for the label of metrics. A queue without a name measures no durations:
	// it reads no clock for items without delay.
	Name string
	// RateLimiter decides how long AddRateLimited waits. Nil means DefaultRateLimiter.
	RateLimiter RateLimiter[T]
	// Flow returns the flow that an item belongs to, such as the namespace of a key: flows take turns. It has
	// to give the same answer for the same item every time. Nil means that all items are one flow.
	Flow func(item T) string
	// Observer is told of every item, in a queue with a name. It may be nil; Stats has the sums.
	Observer Observer
}

// AddOptions say how an item is added. The zero value adds like Add.
type AddOptions struct {
	// Priority decides who goes first. An item that waits already is raised to it, never lowered.
	Priority Priority
	// KeepPriority adds an item that a worker has with the priority that it had when the worker got it, and ignores
	// Priority then. It is for workers that want to see their item again.
	KeepPriority bool
	// Delay is the time before the item may be handed out. Zero or less means at once.
	Delay time.Duration
	// RateLimited adds a delay of the rate limiter's choosing. Of it and Delay the longer one counts.
	RateLimited bool
}
