// Package tidingstest is the test kit: a scripted API server, a handler that checks what it is told, a leak
// check, and a launcher for a real control plane.
//
//   - Server (NewServer) is a real http.Server that holds objects and behaves like a Kubernetes API server, over
//     in-memory connections or loopback, and misbehaves on request: Inject schedules a Fault for a request.
//     It works inside a testing/synctest bubble, where its timeouts and delays take no real time.
//   - ControlPlane (StartControlPlane) is a real kube-apiserver with etcd in a child process, to kill and restart.
//   - Recorder takes deltas as a handler does, keeps the state they lead to, and notes every broken promise.
//   - CheckLeaks fails a test that leaves goroutines behind.
package tidingstest
