// Package reflector keeps a sink equal to one collection of an API server: it lists the collection, watches
// it change, and carries on through everything that servers and networks do to a watch.
//
//	           ┌──► WatchListing ──┐ all objects are there
//	Starting ──┼──► Listing ───────┼───────► Watching ◄─┐ it had worked: the next one follows at once
//	   ▲       └───► Checking ─────┘             │ └────┘
//	   │         resume from a version           │
//	   └─────────────── BackingOff ◄─────────────┘ any failure, also of WatchListing, Listing and Checking
//
// BackingOff leads to Starting, and so to a relist, or to Checking and Watching where the watch can go on from its version,
// or to Listing where the page that failed can be asked for again. Every state leads to Stopped when the context ends.
//
// A Reflector is this machine and one function, Step, which does one state's work (one request, or one read of
// a stream) and picks the next state. Run calls Step until its context ends. There is one goroutine, the
// caller's; the sink is called on it, so a sink that blocks holds back the stream, the connection and, in the
// end, the server.
//
// # Guarantees
//
//  1. The sink gets whole collections (Replace) and what happened to them since (Add), in the server's order.
//  2. The collection does not go back in time: one that is older than what was already seen is refused. The exception is a
//     server that was restored from a backup: if its most recent state is behind twice, five seconds apart, or behind
//     once and then shows an object in an older state than before, its history was rewritten. That is reported (Rewritten), and the sink gets the collection as it is now, listed without reusing
//     anything. Single events may repeat after a reconnect; the sink drops those it knows.
//  3. A watch that brought something new, or lived a second, is taken up again at once, however it ended. So is a relist
//     after the first word that a version has expired. Any other failure is followed by a wait, which grows with the
//     failures in a row: apart for a server that answers and one that does not, so that the first answers after an outage
//     are not paid for with its wait. Retry-After is obeyed and makes no later wait longer. Peers end waits that have
//     become needless.
//  4. No answer of a server, however wrong, leads to more than five requests at once and then one a second, nor to more than
//     five relists at once and then one in ten seconds. Lasting trouble leads to a few a minute. Pages of a list that do
//     bring objects are not counted.
//  5. No request is waited for without limit: a request that is not answered, a list that brings nothing, initial events
//     that do not end, and a watch that outlives the time it was asked for, are given up and made again. So is, far sooner, a
//     watch that is silent although the server is known to send bookmarks.
//  6. An object that cannot be decoded costs no other object anything. What the sink holds of it is kept, by lists and
//     watches alike, and it is named in Status.Skipped, until there is a later state, a deletion, or a list without it. An
//     event of an object that cannot be told leads to a relist, at most once a minute. A list with such an item, or of
//     objects of another kind, is an error.
//  7. A panic in the source, the sink, OnError or the logger is counted, and reported where that is possible; Run goes on.
//  8. Nothing is final. Even an error that will not heal by itself is retried, because a grant may come and a
//     resource may be installed; Error.Permanent tells the owner, who may stop.
//  9. Status.Problem is what is wrong now, from the first failure until things go well. The log has the first failure, the
//     first one for another reason, and then one line a minute.
//
// # How it asks
//
// The first choice is a WatchList: one watch that begins with the current objects. Where it is refused, a list is
// asked for at once, and if that works, lists it is. So it is where WatchLists go silent, do not end their initial
// events, or end three times in a row before these are complete. WatchList gets another chance at the first relist after
// an hour, since servers are upgraded. Where lists work but no watch is granted, the collection is listed again and again,
// slowly.
//
// The first list asks for the most recent state (resourceVersion ""), not for any cached one ("0"): a cache may be
// behind what this program saw before it was restarted, and the picture would go back in time. A relist asks for a state
// not older than the newest version seen, and for all of it at once, which the server can answer from its cache; the
// objects are streamed, so a large answer costs no more memory than pages do. If the server cannot say whether it has that
// version, the most recent state is asked for.
//
// After an outage or a long silence, a list of one object comes before the watch. It tells whether the server has come as
// far as the watch's version; an API server that has not, because it was restored from a backup, would leave the watch open
// and silent until it has. A watch that begins without such a check, because the one before it worked until just now, has to
// bring something within a minute and a half; else the check follows.
//
// The state machine and the swap of the whole collection at the end of a relist follow kube-rs' watcher; the
// protocol is that of client-go's reflector.
package reflector
