// Package tidingstest provides an API server for tests that misbehaves on request, a wrapper that
// makes any source misbehave, and a leak check.
//
//   - Server (NewServer) is a real http.Server that answers like a Kubernetes API server, over
//     in-memory connections or loopback. It starts in less than a millisecond and works inside a
//     testing/synctest bubble, where its timeouts and delays take no real time. Any client can
//     read, watch and write: create, update, delete, patch and apply, with versions and conflicts,
//     finalizers and grace periods, subresources, generations and managed fields, custom resources,
//     discovery and OpenAPI. The test itself can write without any checks (Create, Update, Delete).
//   - It misbehaves on demand. Inject, InjectAlways and InjectFor give requests a Fault; Stop,
//     BreakConnections, Partition, Compact, Restore, RequireToken, ChangeCertificate and ShiftClock
//     affect the whole server.
//   - It misbehaves at random, from a seed. InjectRandom gives requests random faults, and Disturb
//     causes incidents that affect the whole server (Chaos). FaultCounts returns what has occurred.
//   - FaultySource (NewFaultySource) makes any source misbehave in the same ways, on demand or at random.
//   - CheckLeaks fails a test that leaks goroutines.
//
// Its sub-packages: conformance compares the server with a real one, and documents deliberate
// differences; controlplane launches a real kube-apiserver with etcd in a child process; recorder
// has a handler that records every broken promise.
package tidingstest
