// Package tidingstest is an API server for tests that misbehaves on request, with the same for any source, and a leak check.
//
//   - Server (NewServer) is a real http.Server that answers like a Kubernetes API server, over in-memory connections or
//     loopback. It starts in less than a millisecond and works inside a testing/synctest bubble, where its timeouts and
//     delays take no real time. Any client can read, watch and write: create, update, delete, patch and apply, with
//     versions and conflicts, finalizers and grace periods, subresources, generations and managed fields, custom resources,
//     discovery and OpenAPI. The test itself can write past all checks (Create, Update, Delete).
//   - It misbehaves on demand. Inject, InjectAlways and InjectFor give requests a Fault; Stop, BreakConnections, Partition,
//     Compact, Restore, RequireToken, ChangeCertificate and ShiftClock concern the whole server.
//   - It misbehaves by a seed. InjectRandom gives requests random faults, and Disturb lets something happen to the whole
//     server now and then (Chaos). FaultCounts tells what came to pass.
//   - FaultySource (NewFaultySource) makes any source misbehave in the same ways, on demand and by a seed, whatever it is made of.
//   - CheckLeaks fails a test that leaves goroutines behind.
//
// Its sub-packages: conformance compares the server with a real one, and says where it deliberately differs; controlplane
// launches a real kube-apiserver with etcd in a child process; recorder has a handler that notes every broken promise.
package tidingstest
