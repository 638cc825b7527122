package clientgo

import (
	"context"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/watchlist"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// clientSource is a source over a client whose objects have the type of an example.
type clientSource struct{ typeChecked }

// newClientSource returns a source over a client whose objects have the example's type.
func newClientSource(client tweakedClient, example tidings.Object) (source.ListerWatcher[tidings.Object], error) {
	src, err := source.FromClient[tidings.Object](client, source.Scope{})
	if err != nil {
		return nil, err
	}
	return clientSource{newTypeChecked(src, example)}, nil
}

// ObjectType returns the type of the objects, which the engine needs to fold them.
func (s clientSource) ObjectType() reflect.Type { return reflect.TypeOf(s.example) }

// Stats says that the client decodes the objects.
func (s clientSource) Stats() source.Stats {
	return source.Stats{FromFunctions: "the client is not one of client-go's own, whose requests are known"}
}

// tweakedClient is a client that applies a factory's list options.
type tweakedClient struct {
	client     anyClient
	tweak      func(*metav1.ListOptions)
	unstreamed bool // the initial objects cannot be streamed
}

// newTweakedClient returns a client that is one of a whole clientset or its like, which says what it supports.
func newTweakedClient(client anyClient, whole any, tweak func(*metav1.ListOptions)) tweakedClient {
	return tweakedClient{client, tweak, watchlist.DoesClientNotSupportWatchListSemantics(whole)}
}

// IsWatchListSemanticsUnSupported reports whether the initial objects have to be listed rather than streamed.
func (c tweakedClient) IsWatchListSemanticsUnSupported() bool { return c.unstreamed || !streams() }

// Unnumbered reports whether the client is a fake, which does not number the states of objects.
func (c tweakedClient) Unnumbered() bool { return c.unstreamed }

func (c tweakedClient) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	c.tweak(&opts)
	return c.client.List(ctx, opts)
}

func (c tweakedClient) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	c.tweak(&opts)
	return c.client.Watch(ctx, opts)
}
