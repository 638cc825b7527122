// Package leases reads and writes the Leases of a namespace, over a connection of its own.
package leases

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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Client is a client for the Leases of one namespace. It has the methods of client-go's LeaseInterface that are
// needed here. Requests are not retried.
type Client struct {
	client     rest.Interface
	namespace  string
	parameters runtime.ParameterCodec
}

// New returns a client for config's API server, which shares neither rate limits nor connections with other clients. It
// uses HTTP/1.1, where a call without a response closes its connection, so that the next call does not use the same
// dead one. The purpose is added to the user agent. config is not modified.
func New(config *rest.Config, namespace, purpose string) (*Client, error) {
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
	config.UserAgent = cmp.Or(config.UserAgent, rest.DefaultKubernetesUserAgent()) + "/" + purpose
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Client{client, namespace, runtime.NewParameterCodec(scheme)}, nil
}

// Identity returns a name for this process: the host's name and a random suffix.
func Identity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("cannot name this process: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}

// Get reads a Lease. It ignores the options.
func (c *Client) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return c.do(ctx, c.client.Get().Name(name))
}

// Create creates a Lease. It ignores the options.
func (c *Client) Create(
	ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	return c.do(ctx, c.client.Post().Body(lease))
}

// Update replaces a Lease. It ignores the options.
func (c *Client) Update(
	ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	return c.do(ctx, c.client.Put().Name(lease.Name).Body(lease))
}

// Delete deletes a Lease.
func (c *Client) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return c.request(c.client.Delete().Name(name).Body(&o)).Do(ctx).Error()
}

// List lists Leases.
func (c *Client) List(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	list := &coordinationv1.LeaseList{}
	err := c.request(c.client.Get().VersionedParams(&o, c.parameters)).Do(ctx).Into(list)
	return list, err
}

// Watch watches Leases.
func (c *Client) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	return c.request(c.client.Get().VersionedParams(&o, c.parameters)).Watch(ctx)
}

func (c *Client) do(ctx context.Context, request *rest.Request) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	if err := c.request(request).Do(ctx).Into(lease); err != nil {
		return nil, err
	}
	return lease, nil
}

func (c *Client) request(r *rest.Request) *rest.Request {
	return r.Namespace(c.namespace).Resource("leases").MaxRetries(0)
}
