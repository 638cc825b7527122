// Package simulation runs informers, controllers and two managers with leases against a server that misbehaves, in virtual
// time, and checks the promises of the project while it runs and after it.
//
//	                       faults, incidents                 views (all pods, some, ConfigMaps): store and
//	seed ─► schedules ─┬──────────► tidingstest.Server ─┬──► handlers that are slow, panic, come and go
//	                   └─ writes ─►   ▲                 └──► processes: caches ─► controller ─► writes
//	                                  └────────────────────────────── one leader ─────────────────┘
//
// A run is given by its seed and its Mode. The seed decides all writes, the sequence of incidents, the fault of the n-th
// request of each kind and resource, and what handlers and processes do; Report.Schedule is a hash of the writes. It
// does not decide in which order goroutines run that are ready at the same virtual moment: requests that race for
// one fault may swap it when a run is repeated, and what follows may come a little sooner or later.
//
// What is checked:
//
//  1. Each store equals the server's objects in its scope, contents included, at most Patience after the last fault. So do the
//     caches of the processes, also of the one that does not lead.
//  2. Each handler's replay equals the store.
//  3. Each handler hears of each object in order, and never back in time unless the server was restored, and then an error
//     says so.
//  4. Queues are bounded: of handlers by their policies, of controllers by the number of keys.
//  5. The controllers reach what the parents want: no key is lost.
//  6. No key is worked on twice at once, no two processes act at once, and no reconcile misses its own writes.
//  7. No goroutine is left: the bubble does not end before, and fails the test if one cannot end.
package simulation
