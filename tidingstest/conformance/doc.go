// Package conformance is a test suite that runs against both the test server and a real control plane, and checks that
// clients cannot tell them apart.
//
// Most of it consists of scripts: requests with the responses of a real kube-apiserver. To record them again:
//
//	go test ./tidingstest/conformance -run ControlPlane -update
//
// Beside them, TestGeneratedWrites sends random histories of writes to both servers and compares the answers, without
// the texts of errors; random ones with -histories. A manager that has set finalizers or owner references to what they
// were may be left out of managedFields here, which a real server keeps as the owner of the empty list.
//
// Where the test server deliberately differs, the step says why and also has the test server's
// response. These are all such differences:
//
//   - It does not default specs, and validates metadata but not specs, because no library outside of
//     kube-apiserver does. An Admit function can do both.
//   - Versions of one built-in resource, such as autoscaling/v1 and v2, or events of v1 and
//     events.k8s.io/v1, are separate: an object written in one cannot be read in the other.
//     Discovery lists stable versions only.
//   - It has no Tables. Where a client also accepts JSON, it responds with that, and kubectl prints names and ages.
//   - An apply that gives up all fields of an object leaves {} where newer servers have, and refuse, null.
//   - Where kube-apiserver writes its internal Go types into an error message, it writes something similar.
//   - Only namespaces that a client creates exist, and by default objects may also be created in others
//     (ServerOptions.RequireNamespaces).
//
// The suite does not cover, and so does not guarantee: authorization, impersonation, admission
// webhooks, logs, exec, port forwarding and proxies, priority and fairness, audit, service account
// tokens.
package conformance
