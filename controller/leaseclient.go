package controller

import (
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/leases"
)

// NewLeaseElector returns an elector for the lease with this namespace and name. It has its own client for config's API
// server, and an Identity made of the host's name and a random suffix. Its other fields may be set before
// Lead is called.
//
// The client shares neither rate limits nor connections with other clients: the config's QPS, Burst
// and RateLimiter do not apply, and it uses HTTP/1.1, where a call without a response closes its
// connection, so that the next call does not use the same dead connection. config is not modified.
func NewLeaseElector(config *rest.Config, namespace, name string) (*LeaseElector, error) {
	client, err := leases.New(config, namespace, "leader-election")
	if err != nil {
		return nil, fmt.Errorf("lease %s: %w", name, err)
	}
	identity, err := leases.Identity()
	if err != nil {
		return nil, fmt.Errorf("lease %s: %w", name, err)
	}
	return &LeaseElector{Client: client, Name: name, Identity: identity}, nil
}
