// Package controller runs reconcile loops: it turns changes of cached objects into keys, and calls a function for
// each key until the world is as the function wants it.
//
//	caches ──deltas──► predicates ──► mapper ──► queue ──► gate ──► reconcile ──► result
//	                                               ▲        │            │          │
//	                                               │        │ own writes │ Wrote    │ error: backs off
//	                                               ├────────┘ not seen   ▼ Deleted  │ RequeueAfter: later
//	                                               └────────────────────────────────┘
//
// [WatchKeys] goes from the cache to the queue at once: the keys are those of the changed objects.
//
// What it promises:
//
//  1. A key is with one worker at a time, and is reconciled at least once after its last change.
//  2. Nothing is reconciled before all caches that the controller uses are in sync.
//  3. Read your writes: a key is not reconciled while a cache lacks a write that an earlier reconcile of the key
//     made and reported with [Wrote] or [Deleted]. This never holds a key up for longer than
//     [Options].MaxGateWait, nor for a write that a restored server has lost, once the cache shows that.
//     It knows the writes of this process only: the last ones of a leader before it may be missing at the start.
//  4. A change goes before what is only there to be looked at again: the initial list and resyncs have low
//     priority, and keep it when they are tried again or come back after a time. Namespaces take turns.
//  5. An error is tried again, later each time; a [Terminal] one is not, until the object changes. How long a key
//     waits depends on its own failures only. A reconcile that takes too long has its context ended, with a cause
//     that says so.
//  6. A panic in a function of the user's ends neither the process nor the work on a key. One of a reconcile is an
//     error of it; a [Mapper] is asked again about the same state of the object, and a [Predicate] that panics lets
//     the change pass. All are counted in [Stats] and logged.
//  7. Run ends with its workers and mappers: it returns when they have, or says which of them will not.
//  8. One leader: behind a [LeaseElector] the work of two processes never overlaps, as long as a process exits when
//     its Run has returned. The lease is renewed until all work has ended.
//
// A [Manager] runs several controllers as one, behind an [Elector] if only one process may act.
package controller
