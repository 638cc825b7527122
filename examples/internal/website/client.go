package website

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Client writes the Websites in a namespace.
type Client struct {
	rest      rest.Interface
	namespace string
}

// NewClient returns a client for the API server of config.
func NewClient(config *rest.Config, namespace string) (*Client, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(GroupVersion, &Website{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	return &Client{rest: client, namespace: namespace}, err
}

// Create creates a Website. Like the other methods it returns the object as stored by the server.
func (c *Client) Create(ctx context.Context, w *Website) (*Website, error) {
	return do(ctx, c.rest.Post().Namespace(c.namespace).Resource(Resource.Resource).Body(w))
}

// Update replaces a Website except its status.
func (c *Client) Update(ctx context.Context, w *Website) (*Website, error) {
	return do(ctx, c.rest.Put().Namespace(c.namespace).Resource(Resource.Resource).Name(w.Name).Body(w))
}

// UpdateStatus replaces only the status of a Website.
func (c *Client) UpdateStatus(ctx context.Context, w *Website) (*Website, error) {
	return do(ctx, c.rest.Put().Namespace(c.namespace).Resource(Resource.Resource).Name(w.Name).SubResource("status").Body(w))
}

// SetHost changes the host of a Website.
func (c *Client) SetHost(ctx context.Context, name, host string) error {
	w, err := do(ctx, c.rest.Get().Namespace(c.namespace).Resource(Resource.Resource).Name(name))
	if err != nil {
		return err
	}
	w.Spec.Host = host
	_, err = c.Update(ctx, w)
	return err
}

// Delete deletes a Website.
func (c *Client) Delete(ctx context.Context, name string) error {
	return c.rest.Delete().Namespace(c.namespace).Resource(Resource.Resource).Name(name).Do(ctx).Error()
}

func do(ctx context.Context, request *rest.Request) (*Website, error) {
	answer := &Website{}
	if err := request.Do(ctx).Into(answer); err != nil {
		return nil, err
	}
	answer.SetGroupVersionKind(Kind)
	return answer, nil
}
