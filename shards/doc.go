// Package shards divides the work of a program among its replicas: it decides which replica owns which shard. A shard is
// a number from 0 up to a limit that the program chooses; which keys it has is up to who uses the package. Most programs
// use it through package operator (Options.Shards) or controller (NewManager with a [Replica]).
//
// All that replicas know of each other is in Leases with one label:
//
//   - A member's Lease says that the replica takes part. It has a name that is never used again. The replica renews it.
//   - The table is one Lease that says which member owns which shard. Every write of it has the version that was read as
//     its precondition, so there is one sequence of tables.
//
// What may happen to a shard, and nothing else:
//
//	                free: the table names nobody, or a member without a Lease
//	                  │                                      ▲
//	                  │ any member writes the table ①        │ its Lease is deleted ③
//	                  ▼                                      │
//	                owned by a member ───────────────────────┤
//	                  │           ▲                          │
//	another should    │           │ its owner writes the     │
//	have it           │           │ table, naming that ②     │
//	                  ▼           │                          │
//	                draining: nothing starts there, what runs ends
//
// Another member does ③ if it has not seen the Lease renewed for its whole duration, by its own clock, and only if the
// Lease has not changed.
//
// Which member should have a shard follows from the Leases of the members by rendezvous hashing: if one comes or
// goes, only its own share moves.
//
// A member starts work on a shard only while the table that it last read names it, the shard is not draining, and less
// than RenewDeadline has passed since it sent its last successful renewal. That is checked at each start, so a process
// that was stopped for a minute finds that its time is over before it starts anything. RenewDeadline is shorter than the
// Lease's duration, which others count from when they saw the renewal, so no clocks of two machines are compared.
//
// Why two members never start work on one shard at the same time:
//
//  1. Only the owner gives a shard away (②), after its work on it has ended. From then on it starts nothing there: a
//     write with an unknown outcome may still arrive, so a draining shard is only taken up again when the table has
//     changed in another way.
//  2. Anybody else writes an owned shard only if the owner's Lease does not exist in the same list as the table. It
//     never exists again, and was there before the table named it.
//  3. A Lease is deleted by its owner, after all its work has ended, or by somebody who has not seen it renewed for its
//     duration (③). The precondition of that deletion is the version seen, so the owner has not renewed it since. By
//     then it has long started nothing. What it had started was canceled, and if that did not end in time, the process
//     had to exit: [Replica.Lead] returned.
//     A process also deletes Leases that it gave up creating, and that exist nevertheless: it never worked under their
//     names.
//  4. Deleting Leases by hand, or restoring the API server from a backup, breaks 2 and 3. A member that finds its Lease
//     gone, or a table older than one that it has seen, or one that gives a shard that it has to somebody else, stops
//     at once, and takes part again under a new name. It finds out when it next reads: when its watch breaks or tells of
//     the change, or at the latest when it next renews.
//  5. An unreadable table does not say who owns what, so while there is one, members keep what they have, and take nothing
//     up. Each says in its Lease what it has, beside the version of the table. Once all members in a list have said so for
//     the table in it, one of them writes the table again.
//  6. A Lease with the table's name that belongs to an election is used for the table once its leader has released it, or
//     has not renewed it for its duration. From then on it has a holder and a duration of years, which electors respect.
//     The last member that leaves releases it.
//
// What remains is work that had begun before its process was stopped: when the process continues, a request of such work
// may still be sent, up to the moment when it notices that its context has ended. A write with a resource version as its
// precondition is refused if the new owner has written to the object.
package shards
