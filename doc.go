// Package tidings keeps a program's picture of a Kubernetes cluster current and tells it of every change.
//
// It is the informer stack, typed from the first line: a [Factory] makes a [SharedInformer] for each type and
// [Scope], the informer lists and watches the API server, keeps what it gets in an indexed store of immutable
// snapshots, and calls each [Handler] for every change.
//
//	API server ──list+watch──► source ──► reflector ──► store transaction ──► one deltafifo per handler ──► handler
//
// # Promises
//
//  1. Convergence. While the server can be reached, every store eventually equals the server's state, also after the
//     server was restored from a backup. An object's states appear in order; none goes back in time, not even over a
//     relist or a reconnect to a staler server, except after such a restore, and then it is said.
//  2. One snapshot. Every read is answered from one immutable snapshot, which holds the objects, all indexes and
//     the resource version it is current to. Taking one costs one atomic load. Readers never block the writer, and the
//     writer never blocks readers. Nobody sees a version before the snapshot that holds it.
//  3. Handlers. A handler is called for one notification at a time, in order for each object, after the store and
//     indexes hold it. A slow handler delays nobody else, unless it asks for that ([Block]). A panic in one is
//     recovered, counted and reported, and the process lives. A handler may do anything with the informer, stopping it included.
//  4. Bounded. No queue grows without limit. [HandlerOptions] say what happens when a handler falls behind:
//     [Coalesce] per key, [Block], or [Unbounded] for those who ask for it. Buffers shrink again.
//  5. No silence. Waiting for sync returns an error that says what is wrong in the user's words: at once for what
//     cannot heal by itself if the caller wants that (WaitForSyncFailFast), at the deadline otherwise; the first obstacle is
//     logged within seconds. Health (Fresh, [Status]) is what is true now. An object that could not be decoded is named.
//  6. Typed. T is the object type everywhere: handlers, listers, indexes, tombstones. A delete whose final state was
//     missed says so in a field, [Tombstone].FinalStateUnknown.
//  7. Own life for each informer. An informer can be started and stopped alone; shared ones count their users;
//     informers of one type with different selectors, namespaces or trims live side by side in one factory; namespaces can
//     change while an informer runs. Nothing outlives a stop, and a stop never lies.
//  8. Fresh. A snapshot knows its resource version, and WaitFor waits for one, so that a program reads its own writes.
//  9. Light. Equal parts of objects are stored once. Objects in a store are read-only; a cheap guard, on by
//     default, catches who writes to them ([Mutation]), and a stray write does not spread to other objects.
//  10. Safe. Hostile or broken bytes give an error, never a panic, a hang or unbounded memory.
//
// # Reading the source
//
// The packages stand in the order in which one change passes through them: source, reflector, internal/engine with the store,
// deltafifo, and then this package, which holds what a user touches. See docs/architecture.md.
package tidings
