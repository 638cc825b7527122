// Package replicaset has the ReplicaSet and the ReplicationController controllers: they keep as many pods running as an
// object asks for. Both are one engine on two resources, and users of the public API.
//
//	ReplicaSet ─┐                        ┌─► adopt and release pods
//	pods ───────┼─► key ─► reconcile ────┼─► create (slow start) or delete (by rank) pods
//	own writes ─┘                        └─► write the status, if it has changed
//
// What it promises, besides what the controller package does:
//
//  1. It never acts on a count that lacks its own writes: expectations, the read-your-writes gate, and, after a write
//     whose outcome is unknown, a look at the server itself.
//  2. It owns what it counts: pods with its controller reference that match its selector. Orphans that match are adopted,
//     after the owner has been read uncached and is found alive with its uid; pods that no longer match are released.
//  3. A scale-up by n makes n creations: in batches of 1, 2, 4 … that stop at the first batch with a failure, at most
//     Options.Burst in one reconcile.
//  4. The status is written only when it differs.
//
// The behaviour is that of kube-controller-manager's controllers, which are the reference.
package replicaset
