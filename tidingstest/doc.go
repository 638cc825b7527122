// Package tidingstest is a scripted API server for tests, with a leak check.
//
//   - Server (NewServer) is a real http.Server that holds objects and behaves like a Kubernetes API server, over
//     in-memory connections or loopback, and misbehaves on request: Inject schedules a Fault for a request.
//     It works inside a testing/synctest bubble, where its timeouts and delays take no real time.
//   - CheckLeaks fails a test that leaves goroutines behind.
//
// Its sub-packages hold what needs no scripted server: controlplane launches a real kube-apiserver with etcd in a
// child process, and recorder has a handler that notes every broken promise.
package tidingstest
