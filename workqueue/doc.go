// Package workqueue hands out items to workers. It deduplicates items, delays retries, serves urgent items
// first, and shares the workers fairly between flows such as namespaces.
//
// Guarantees:
//
//  1. Deduplication. An item that is added several times while it waits is handed out once. An item that is added
//     while a worker has it is handed out once more after that worker calls Done.
//  2. One worker. Between Get and Done no other worker gets the item.
//  3. Order. Items of one flow and one [Priority] are first come, first served. Flows of one priority
//     take turns, item by item. Higher priorities go first but do not starve lower ones: of any 20 items that are
//     handed out while an item of a lower priority waits, at least one is of that lower priority. An item that its
//     worker adds again with AddAfter or AddRateLimited keeps the priority with which it was handed out, so that an
//     item that returns every minute does not overtake items that have not been handed out yet.
//  4. Delays. A delayed item is not handed out before its time, and of several delays of one item the earliest
//     counts. A delay never holds back an Add of the same item without a delay.
//  5. Bounded memory. The queue holds one entry for each distinct item, however often it is added.
//     Its buffers shrink after a burst: to avoid allocations it keeps at most 1,024 idle entries,
//     or as many as are in use. Of items that refer to objects, such as pointers and interfaces, it
//     keeps none: they can be freed after Done.
//  6. No idle work. The queue has no goroutine. All delayed items share one timer, which
//     is only set while there are any.
//
// Therefore a cycle of Add, Get and Done does not allocate for an item that the queue still has an
// entry for, nor for one that refers to objects.
//
// The dedup states and the names of metrics are those of client-go's work queue; priorities for
// initial lists come from controller-runtime, and turns between flows from the API server's fair queuing.
package workqueue
