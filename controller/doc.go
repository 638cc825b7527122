// Package controller runs reconcile loops: it turns changes of cached objects into keys, and calls a function for
// each key until the world is as the function wants it.
//
//	caches ──deltas──► predicates ──► mapper ──► queue ──► gate ──► reconcile ──► result
//	                                               ▲        │            │          │
//	                                               │        │ own writes │ Wrote    │ error: backs off
//	                                               ├────────┘ not seen   ▼ Deleted  │ RequeueAfter: later
//	                                               └────────────────────────────────┘
//
// What it promises:
//
//  1. A key is with one worker at a time, and is reconciled at least once after its last change.
//  2. Nothing is reconciled before all caches that the controller uses are in sync.
//  3. Read your writes: a key is not reconciled while a cache lacks a write that an earlier reconcile of the key
//     made and reported with [Wrote] or [Deleted]. This never holds a key up for longer than
//     [Options].MaxGateWait.
//     It knows the writes of this process only: the last ones of a leader before it may be missing at the start.
//  4. A change goes before what is only there to be looked at again: the initial list and resyncs have low
//     priority. Namespaces take turns.
//  5. An error is tried again, later each time; a [Terminal] one is not, until the object changes. A panic is an
//     error. A reconcile that takes too long has its context ended, with a cause that says so.
//  6. Run ends with its workers: it returns when they have, or says which of them will not.
//
// A [Manager] runs several controllers as one, behind an [Elector] if only one process may act.
package controller
