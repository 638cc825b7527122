package controller

import (
	"cmp"
	"context"
	"fmt"
	"os"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
)

// NewLeaseElector returns an elector for the lease with this namespace and name. It has its own client for config's API
// server, and an Identity made of the host's name and a random suffix. Its other fields may be set before
// Lead is called.
//
// The client shares neither rate limits nor connections with other clients: the config's QPS, Burst
// and RateLimiter do not apply, and it uses HTTP/1.1, where a call without a response closes its
// connection, so that the next call does not use the same dead connection. config is not modified.
func NewLeaseElector(config *rest.Config, namespace, name string) (*LeaseElector, error) {
	client, err := newLeaseClient(config, namespace)
	if err != nil {
		return nil, fmt.Errorf("lease %s: %w", name, err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("lease %s: cannot name this process: %w", name, err)
	}
	return &LeaseElector{Client: client, Name: name, Identity: host + "_" + string(uuid.NewUUID())}, nil
}

// restLeases is a LeaseClient over a REST client.
type restLeases struct {
	client    rest.Interface
	namespace string
}

func newLeaseClient(config *rest.Config, namespace string) (*restLeases, error) {
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.RateLimiter = -1, 0, nil
	config.NextProtos = []string{"http/1.1"}
	config.APIPath = "/apis"
	config.GroupVersion = &coordinationv1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.UserAgent = cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent()) + "/leader-election"
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &restLeases{client, namespace}, nil
}

// Get reads the lease. It ignores the options.
func (l *restLeases) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return l.do(ctx, l.client.Get().Name(name))
}

// Create creates the lease. It ignores the options.
func (l *restLeases) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return l.do(ctx, l.client.Post().Body(lease))
}

// Update replaces the lease. It ignores the options.
func (l *restLeases) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return l.do(ctx, l.client.Put().Name(lease.Name).Body(lease))
}

// do makes a request without retries: the elector does its own.
func (l *restLeases) do(ctx context.Context, request *rest.Request) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	err := request.Namespace(l.namespace).Resource("leases").MaxRetries(0).Do(ctx).Into(lease)
	if err != nil {
		return nil, err
	}
	return lease, nil
}
