// Package workqueue stands in for client-go's util/workqueue: it has every exported name of that package, so a program changes the import path
// only. Its queues are those of Tidings' package workqueue: they start no goroutine, except one for the metrics of a queue with a name.
//
// What client-go lets a program put in runs client-go's code: a queue with a Clock or a storage (TypedQueueConfig.Queue) of the program's own
// is client-go's, and one over a given queue (the fields Queue and DelayingQueue of the other configs) wraps it as client-go does.
//
// ShutDownWithDrain waits until all items have been processed, as client-go documents it, also those that no worker has taken yet, for which
// client-go's does not wait.
package workqueue

//go:generate sh -c "cd .. && go run gen_aliases.go workqueue util/workqueue"
