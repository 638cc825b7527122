// Package replicaset implements the ReplicaSet and ReplicationController controllers, which keep
// the desired number of pods running. Both share one implementation, which only uses the public
// API.
//
//	ReplicaSet ─┐                        ┌─► adopt and release pods
//	pods ───────┼─► key ─► reconcile ────┼─► create (slow start) or delete (by rank) pods
//	own writes ─┘                        └─► write the status, if it has changed
//
// Guarantees, in addition to those of package controller:
//
//  1. It never acts on a count that lacks its own writes. It ensures this with expectations, the
//     read-your-writes gate, and, after a write whose outcome is unknown, by reading from the
//     server.
//  2. It only counts pods that it owns: those with its controller reference that match its
//     selector. Matching orphans are adopted, after reading the owner from the server to verify
//     that it is not being deleted and has the same uid; pods that no longer match are released.
//  3. A scale-up by n makes n create calls, in batches of 1, 2, 4 … that stop after the first batch
//     with a failure, and at most Options.Burst in one reconcile.
//  4. The status is written only if it differs.
//
// The behavior is that of kube-controller-manager's controllers, which are the reference.
package replicaset
