// Package conformance holds one suite that runs against the test server and against a real control plane: what a client can
// observe is equal.
//
// Most of it is in scripts: requests, each with the answer of a real kube-apiserver. They were recorded from one, and can be
// recorded again:
//
//	go test ./tidingstest/conformance -run ControlPlane -update
//
// Where the test server deliberately differs, the step says why, and holds the test server's answer too. These are all
// differences of that kind:
//
//   - It sets no defaults in specifications, and validates metadata but not specifications, for want of a library outside of
//     kube-apiserver that does. An Admit function can do both.
//   - Versions of one built-in resource, such as autoscaling/v1 and v2, or events of v1 and events.k8s.io/v1, are separate:
//     an object that was written in one cannot be read in the other. Only stable versions are in discovery.
//   - It has no Tables and offers JSON where a client accepts that too. kubectl prints names and ages.
//   - Where kube-apiserver writes its internal Go types into an error text, it writes something similar.
//   - No namespaces but those that a client creates exist, and by default objects may be created in others too
//     (ServerOptions.RequireNamespaces).
//
// What no request of the suite touches is not part of this promise: authorization, impersonation, admission webhooks, logs,
// exec, port forwarding and proxies, priority and fairness, audit, tokens of service accounts.
package conformance
