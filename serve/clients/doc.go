// Package clients has tests with clients of the Kubernetes API that know nothing of replicas: kubectl, client-go and
// controller-runtime. It is a module of its own because of what they depend on.
package clients
