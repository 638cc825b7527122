// Package tidings keeps a local, current copy of the objects in a Kubernetes cluster and notifies
// handlers of every change.
//
// It is an informer stack that is typed throughout: a [Factory] makes a [SharedInformer] for each type and
// [Scope]; the informer lists and watches the API server, keeps the objects in an indexed store of immutable
// snapshots, and calls each [Handler] for every change.
//
//	API server ──list+watch──► source ──► reflector ──► store transaction ──► one deltafifo per handler ──► handler
//
// # Promises
//
//  1. Convergence. While the server is reachable, every store eventually matches the server's state, even after the
//     server is restored from a backup. An object's states appear in order and never go back in time, not even across a
//     relist or a reconnect to a staler server; the only exception is such a restore, and it is reported.
//  2. One snapshot. Every read is answered from one immutable snapshot, which holds the objects, all indexes and
//     the resource version it is current to. Taking one costs one atomic load. Readers never block the writer, and the
//     writer never blocks readers. No version is visible before the snapshot that holds it.
//  3. Handlers. A handler is called for one notification at a time, in order for each object, after
//     the store and indexes hold the change. A slow handler delays nobody else, unless it asks for
//     that ([Block]). A panic in a handler is recovered, counted and reported, and the process
//     survives. A handler may do anything with the informer, including stopping it.
//  4. Bounded. No queue grows without limit unless asked to. [HandlerOptions] choose what happens
//     when a handler falls behind: [Coalesce] per key, [Block], or [Unbounded]. Buffers shrink
//     again.
//  5. No silence. Waiting for sync returns an error that says in plain words what is wrong: at the
//     deadline, or immediately for problems that retrying cannot fix if the caller uses
//     WaitForSyncFailFast. The first obstacle is logged within seconds. Health (Fresh, [Status])
//     reports the present state. Objects that cannot be decoded are named.
//  6. Typed. T is the object type everywhere: handlers, listers, indexes, tombstones. A delete whose final state was
//     missed says so in a field, [Tombstone].FinalStateUnknown.
//  7. Independent lifecycles. Each informer can be started and stopped on its own; shared informers count their users;
//     informers of one type with different selectors, namespaces or trims coexist in one factory; namespaces can
//     change while an informer runs. Nothing outlives a stop; a Stop whose context ends before that returns an error.
//  8. Fresh. A snapshot knows its resource version, and WaitFor waits for one, so that a program
//     can read its own writes.
//  9. Light. Equal parts of objects are stored once. Objects in a store are read-only; a cheap guard, on by
//     default, detects writes to them ([Mutation]), and such a write does not spread to other objects.
//  10. Safe. Malicious or corrupt input results in an error, never a panic, a hang or unbounded memory.
//  11. Never worse. A program that moves to this module's packages for client-go or controller-runtime by changing a line
//     behaves as it did, wherever those document it; docs/migrating.md lists the differences.
//  12. One owner. Of a sharded controller's keys (package shards), each is reconciled by one replica at a time, and by one
//     soon after any failure; docs/shards.md has the exceptions.
//
// # Reading the source
//
// Read the packages in the order in which a change passes through them: source, reflector,
// internal/engine with the store, deltafifo, and then this package, which is the public API. See
// docs/architecture.md.
package tidings
