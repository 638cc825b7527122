package source

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/object"
)

// Get reads one object. resourceVersion is as in metav1.GetOptions: the object is not older than that; empty means its
// present state. Nothing in the object is shared with others. Errors are those of List; the scope's
// selectors do not matter.
func (h *HTTP[T]) Get(ctx context.Context, key object.Key, resourceVersion string) (none T, err error) {
	scope := h.scope
	scope.Namespace = key.Namespace
	if key.Name == "" || key.Name == "." || key.Name == ".." || strings.ContainsAny(key.Name, "/?#%") {
		return none, fmt.Errorf("get %v: %q cannot be the name of an object", scope, key.Name)
	}
	if scope, err = scope.complete(); err != nil {
		return none, err
	}
	if h.client.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, h.client.timeout, errTimeout)
		defer cancel()
	}
	query := url.Values{}
	setQuery(query, "resourceVersion", resourceVersion)
	address := h.client.collectionURL(scope.Resource, key.Namespace).JoinPath(key.Name)
	response, err := h.client.get(ctx, *address, query, h.accept)
	if err != nil {
		return none, err
	}
	defer response.Body.Close()
	c, err := h.formatFor(response)
	if err != nil {
		return none, err
	}
	limit := int64(scope.MaxObjectBytes)
	data, err := io.ReadAll(io.LimitReader(countingReader{response.Body, &h.stats.bytes}, limit+1))
	switch {
	case err != nil:
		return none, withCause(ctx, fmt.Errorf("get %s: %w", key, bodyError(err, scope)))
	case int64(len(data)) > limit:
		return none, fmt.Errorf("%v: %w", scope, &TooLargeError{Size: -1, Limit: scope.MaxObjectBytes, Key: key})
	}
	obj, err := c.single(data)
	if err == nil && object.KeyOf(obj) != key {
		err = fmt.Errorf("the server answered with %s", object.KeyOf(obj))
	}
	if err != nil {
		return none, fmt.Errorf("get %v %s: %w", scope, key, err)
	}
	return obj, nil
}

// single decodes the body of a response that is one object.
func (c *format[T]) single(data []byte) (none T, err error) {
	raw, err := c.open(data)
	if err != nil {
		return none, err
	}
	d, ok := c.singles.Get().(wire.Decoder[T])
	if !ok {
		d, _ = c.newDecoder(true)
	}
	defer c.singles.Put(d)
	r, err := c.reader(d, intake.Previous[T](nil), false, true).object(raw)
	return r.Object, err
}
