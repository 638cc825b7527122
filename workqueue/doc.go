// Package workqueue hands items of work to workers: each item to one worker at a time, each burst of adds of
// one item once, retries with a delay, urgent items first, and no noisy neighbour before all others.
//
// What it promises:
//
//  1. Once. An item that is added while it waits is handed out once. An item that is added while a worker has
//     it is handed out again, once, after that worker called Done.
//  2. One worker. Between Get and Done nobody else gets the item.
//  3. Order. Among items of one flow and one [Priority] it is first come, first served. Flows of one priority
//     take turns, item by item. A higher priority goes first, but never for ever: of any 20 items that are
//     handed out while an item of a lower priority waits, at least one is of that lower priority. A worker that
//     adds its item again with AddAfter or AddRateLimited keeps the priority that the item was taken with: what
//     comes back every minute does not overtake what has not had its first turn.
//  4. Time. A delayed item is not handed out before its time, and of several delays of one item the earliest
//     wins. A delay never holds back an Add of the same item that asked for none.
//  5. Bounds. The queue holds one entry for each distinct item, whatever number of times it is added. Its
//     buffers shrink again after a burst: what it keeps to avoid allocation is at most 1,024 entries, or as
//     many as are in use.
//  6. Nothing runs when nothing is due. The queue has no goroutine. All delayed items share one timer, which
//     is set only while there are some.
//
// So one cycle of Add, Get and Done of an item that the queue has seen before allocates nothing.
//
// The dedup states are those of client-go's work queue, as are the names of its metrics; the priorities for
// initial lists come from controller-runtime, the turns between flows from the API server's fair queuing.
package workqueue
