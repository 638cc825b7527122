// Package reflector keeps a sink in sync with one collection of an API server: it lists and watches the
// collection, and recovers from everything that servers and networks do to a watch.
//
//	           ┌──► WatchListing ──┐ all objects are there
//	Starting ──┼──► Listing ───────┼───────► Watching ◄─┐ it had worked: the next one follows at once
//	   ▲       └───► Checking ─────┘             │ └────┘
//	   │         resume from a version           │
//	   └─────────────── BackingOff ◄─────────────┘ any failure, also of WatchListing, Listing and Checking
//
// BackingOff leads to Starting, and so to a relist; to Checking or Watching if the watch can be
// resumed from its version; or to Listing if the failed page can be requested again. Every state
// leads to Stopped when the context ends.
//
// A Reflector is this machine. Run does the work of one state at a time (one request, or one read
// from a stream) and picks the next state, until its context ends. Except for requests beside an
// open watch, there is only one goroutine, the caller's. The sink is called on it, so a sink that
// blocks exerts backpressure on the stream, the connection and eventually the server.
//
// # Guarantees
//
//  1. The sink gets complete collections (Replace) and subsequent changes (Add), in the server's order.
//  2. The collection does not go back in time, unless the versions of the server's lists prove
//     nothing (Status.UnprovenVersions): a list older than what was already seen is rejected. The
//     exception is a server that was restored from a backup: if its most recent state is behind
//     three times in five seconds, or is behind once and then shows an object in an older state than
//     before, its history was rewritten. That is reported (Rewritten), and the sink gets the
//     present collection, listed without reusing anything. Single events may be repeated after a
//     reconnect; the sink drops those it knows.
//  3. A watch that delivered something new, or lasted a second, is resumed immediately, however it
//     ended. If the server's lists have no version to resume from, a relist follows instead, which
//     shows what was deleted in between. A relist also follows immediately the first time that a
//     version has expired. After any other failure the reflector waits, longer with each
//     consecutive failure. Waits grow separately for servers that respond and servers that do not,
//     so that the first error responses after an outage do not incur the outage's long wait.
//     Retry-After is obeyed and does not lengthen later waits, but from the 31st time in a row
//     without progress, the wait is at least as long as after other failures. The longest wait for
//     a missing permission is a minute. Peers end waits that have become unnecessary.
//  4. No response from a server, however wrong, leads to more than a burst of five requests and
//     then one per second, or to more than a burst of five relists and then one per ten seconds,
//     unless Options.Backoff has no wait of a second. Persistent problems lead to a few requests a
//     minute. Pages of a list that deliver objects are not counted.
//  5. No request waits forever: a request without a response, a list that stops delivering objects,
//     initial events that do not end, and a watch that outlasts its timeout are abandoned and
//     retried. So is, much sooner, a watch that is silent although the server is known to send
//     bookmarks. If the server has changed meanwhile, a list follows.
//  6. An object that cannot be decoded does not affect other objects. Lists and watches alike keep
//     the sink's state of it and name it in Status.Skipped, until there is a later state, a
//     deletion, or a list without it. An event whose object cannot be identified leads to a relist,
//     at most once a minute. A list with such an item, or with objects of another kind, is an
//     error.
//  7. A panic in the source, the sink, OnError or the logger is counted, and reported if possible; Run continues.
//  8. No failure is final. Even errors that need intervention are retried, because permissions may be granted and
//     resources may be installed; Error.Permanent lets the owner decide to stop.
//  9. Status.Problem is the present problem, from the first failure until recovery. The first
//     failure is logged, then the first one for each other reason, and then one line a minute.
//
// # Requests
//
// The first choice is a WatchList: a watch that begins with the current objects. If the server
// rejects it, a list follows immediately, and if that succeeds, lists are used from then on. They
// are also used if a WatchList goes silent, does not end its initial events, or ends three times in
// a row before these are complete. WatchList is tried again at the first relist after an hour, in
// case the server was upgraded. Beside a WatchList that brings nothing for two seconds, or takes
// longer than four, the first page of a list is requested, by one of the Peers of an API group at a
// time; if lists turn out to be much faster, that list goes on instead. If lists are permitted but
// watches are not, the collection is listed periodically, at a slow rate.
//
// The first list requests the most recent state (resourceVersion ""), not any cached one ("0"): a
// cache may be behind what this program saw before it was restarted, so the collection could go
// back in time. A relist requests a state not older than the newest version seen, without paging,
// which the server can serve from its cache; the objects are streamed, so a large response needs no
// more memory than pages do. If the server cannot tell whether it has that version, the most recent
// state is requested.
//
// After an outage or a long silence, a list of one object precedes the watch. It shows whether the server has reached
// the watch's version; an API server that has not, because it was restored from a backup, would leave the watch open
// and silent until it has. A watch that begins without such a check, because the previous one worked until then, has to
// deliver something that is not older than its version within 90 seconds; otherwise the check is made beside it.
//
// A response to a check is no progress. If a watch is abandoned because of its silence, or two
// watches in a row bring nothing for two minutes, and a check shows that the server has more than
// the sink, a list follows in place of the next watch, and watches may be silent for twice as long
// afterwards: a proxy may hold back what they bring, but they do bring it. Status.BehindSince says
// since when the sink has lacked what the server was seen to have.
//
// The state machine and the swap of the whole collection at the end of a relist follow kube-rs' watcher; the
// protocol is that of client-go's reflector.
package reflector
