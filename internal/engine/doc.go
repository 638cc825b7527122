// Package engine is what an informer does, apart from its public API.
//
//		              ┌─ part (one list and watch) ─┐
//		server ─────► │ source ► reflector ► sink   │ ──① transaction──► store
//		              └─────────────────────────────┘        │
//		                 one goroutine a part              ② push
//		                                                     ▼
//		                             handler ◄─③ pop── deltafifo.Queue (one a handler)
//		                              one goroutine a handler
//
//	 1. A part's reflector calls it with changes, or with a whole collection. On that goroutine, under the apply lock, the
//	    changes go through one transaction: what is old news is dropped, objects, indexes and versions become one snapshot.
//	 2. What is left is pushed to the queue of every handler, still under the lock: so each queue has everything in the
//	    order of the snapshots. Pushing never waits.
//	 3. A handler's goroutine pops and calls the handler.
//
// # Rules
//
//   - No function of the user's runs under the apply lock, but for the functions of indexes, which must be pure. Transforms run
//     before it, handlers and reports (OnError, OnMutation) on goroutines of their own.
//   - A handler that asks for Block is waited for before the apply lock is taken.
//   - Every goroutine belongs to the informer; Stop waits for all of them. Called from a handler it waits for all others.
//   - A panic in a function of the user's is recovered, counted and logged.
package engine
