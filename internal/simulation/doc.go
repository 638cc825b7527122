// Package simulation runs informers, controllers and two managers with leases against a server that
// misbehaves, in virtual time, and checks the project's promises during and after the run.
//
//	                       faults, incidents                 views (all pods, some, ConfigMaps): store and
//	seed ─► schedules ─┬──────────► tidingstest.Server ─┬──► handlers that are slow, panic, come and go
//	                   └─ writes ─►   ▲                 └──► processes: caches ─► controller ─► writes
//	                                  └────────────────────────────── one leader ─────────────────┘
//
// A run is determined by its seed and its Mode. The seed determines all writes, the sequence of
// incidents, the fault of the n-th request of each kind and resource, and what handlers and
// processes do; Report.Schedule is a hash of the writes. It does not determine the order in which
// goroutines run that are ready at the same virtual time: requests that race for a fault may swap
// it when a run is repeated, and what follows may happen a little sooner or later.
//
// What is checked:
//
//  1. Each store equals the server's objects in its scope, including their contents, at most
//     Patience after the last fault. So do the caches of the processes, including those that do not
//     lead.
//  2. Each handler's replay equals the store.
//  3. Each handler is notified of each object in order, and never back in time unless the server
//     was restored; in that case an error reports it.
//  4. Queues are bounded: those of handlers by their policies, those of controllers by the number of keys.
//  5. The controllers reach the parents' desired state: no key is lost.
//  6. No key is processed twice at the same time, no two processes act at the same time, and no
//     reconcile misses its own writes.
//  7. No goroutine is leaked: the bubble waits for all goroutines, and fails the test if one cannot end.
package simulation
