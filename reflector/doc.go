// Package reflector keeps a sink equal to one collection of an API server: it lists the collection, watches
// it change, and carries on through everything that servers and networks do to a watch.
//
//	           ┌──► WatchListing ──┐ all objects are there
//	Starting ──┼──► Listing ───────┼─────────► Watching ◄──┐ the server closed the watch
//	   ▲       └───────────────────┘             │  └──────┘
//	   │        resume from a version            │
//	   └────────────── BackingOff ◄──────────────┘ any failure, also of WatchListing and Listing
//
// BackingOff leads to Starting, and so to a relist, or to Watching or Listing where the request that failed can be
// made again as it was. Every state leads to Stopped when the context ends.
//
// A Reflector is this machine and one function, Step, which does one state's work (one request, or one read of
// a stream) and picks the next state. Run calls Step until its context ends. There is one goroutine, the
// caller's; the sink is called on it, so a sink that blocks holds back the stream, the connection and, in the
// end, the server.
//
// # Guarantees
//
//  1. The sink gets whole collections (Replace) and what happened to them since (Events), in the server's order.
//  2. The collection never goes back in time: one that is older than what was already seen is refused, whatever
//     server it comes from. Single events may repeat after a reconnect; the sink drops those it knows.
//  3. Every failure is followed by a wait that grows. What is tried another way at once is tried so once, watches
//     are at least a second apart, and only the pages of a list that does bring objects follow each other freely:
//     no answer of a server, however wrong, leads to more than a few requests a second, and lasting trouble to a
//     few a minute.
//  4. No request is waited for without limit: a list that brings nothing, and a watch that outlives the time it
//     was asked for, are given up and made again.
//  5. Nothing is final. Even an error that cannot heal by itself is retried, because a grant may come and a
//     resource may be installed; Error.Permanent tells the owner, who may stop.
//
// # How it asks
//
// The first choice is a WatchList: one watch that begins with the current objects. A server that does not offer
// it (it answers 400, 405, 422, goes silent, or ends three such streams in a row before they are complete) is asked
// for paged lists instead. It gets another chance at the first relist after an hour, since servers are upgraded.
//
// The first list asks for the most recent state (resourceVersion ""), not for any cached one ("0"): a cache may be
// behind what this program saw before it was restarted, and the picture would go back in time. A relist asks for a state not older than the newest version
// seen, and for all of it at once, which the server can answer from its cache; the objects are streamed, so a large
// answer costs no more memory than pages do. If the server cannot say whether it has that version, the most
// recent state is asked for.
//
// The state machine and the swap of the whole collection at the end of a relist follow kube-rs' watcher; the
// protocol is that of client-go's reflector.
package reflector
