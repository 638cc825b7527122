// Package workqueue is a drop-in replacement for client-go's util/workqueue: it declares every
// exported name of that package in client-go 0.36 and 0.37, so a program only changes the import
// path. Its queues are those of Tidings' package workqueue: they start no goroutine, except one for
// the metrics of a named queue.
//
// Queues with custom parts run client-go's code: a queue with its own Clock or storage
// (TypedQueueConfig.Queue) is client-go's, and one over a given queue (the Queue and DelayingQueue
// fields of the other configs) wraps it as client-go does.
//
// ShutDownWithDrain waits until all items have been processed, as client-go documents it. That
// includes items that no worker has taken yet, for which client-go's does not wait.
package workqueue

//go:generate sh -c "cd .. && go run gen_aliases.go workqueue util/workqueue"
