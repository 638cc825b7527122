// Package engine implements what an informer does; its public API is the root package.
//
//	              ┌─ part (one list and watch) ─┐
//	server ─────► │ source ► reflector ► holder │ ──① transaction──► store
//	              └─────────────────────────────┘        │
//	                 one goroutine per part            ② push
//	                                                     ▼
//	                             handler ◄─③ pop── deltafifo.Queue (one per handler)
//	                              one goroutine per handler
//
// A change takes three steps:
//
//  1. A part's reflector calls the part with changes, or with a whole collection. On that
//     goroutine, under the apply lock, they go through one transaction: stale states are dropped,
//     and objects, indexes and versions become one snapshot.
//  2. The remaining changes are pushed to the queue of every handler, still under the lock, so that
//     each queue gets them in the order of the snapshots. Pushing never waits.
//  3. A handler's goroutine pops batches and calls the handler.
//
// # Rules
//
//   - No user code runs under the apply lock except index functions, which must be pure, and the
//     functions that make the sources of added namespaces. Transforms run before the lock is taken;
//     handlers and reports (OnError, OnMutation) run on their own goroutines.
//   - Waiting for room in the queue of a Block handler happens before the apply lock is taken.
//   - Every goroutine belongs to the informer; Stop waits for all of them. Called from a handler it
//     waits for all others.
//   - A panic in user code is recovered, counted and logged.
package engine
