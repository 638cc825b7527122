package source

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/tools/metrics"
)

// client-go's request metrics count the requests of this package as if one of its clients had sent them: results of
// all requests, and latency and sizes of those that are no watches.

// measured sends a request and counts it.
func (c *Client) measured(ctx context.Context, request *http.Request) (*http.Response, error) {
	start := time.Now()
	response, err := c.http.Do(request)
	if c.uncounted {
		if err == nil {
			decompress(response)
		}
		return response, err
	}
	code := "<error>" // client-go's word: the texts of errors have no bound
	if err == nil {
		code = strconv.Itoa(response.StatusCode)
	}
	metrics.RequestResult.Increment(ctx, code, request.Method, c.base.Host)
	if err == nil {
		decompress(response)
	}
	if request.URL.Query().Has("watch") {
		return response, err
	}
	metrics.RequestSize.Observe(ctx, request.Method, c.base.Host, 0)
	observe := func(size int64) {
		metrics.RequestLatency.Observe(ctx, request.Method, c.template(request.URL), time.Since(start))
		metrics.ResponseSize.Observe(ctx, request.Method, c.base.Host, float64(size))
	}
	if err != nil {
		observe(0)
		return nil, err
	}
	response.Body = &measuredBody{ReadCloser: response.Body, closed: observe}
	return response, nil
}

// measuredBody calls closed, once, with its size when it is closed.
type measuredBody struct {
	io.ReadCloser
	size   int64
	closed func(size int64)
}

func (b *measuredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.size += int64(n)
	return n, err
}

func (b *measuredBody) Close() error {
	if b.closed != nil {
		b.closed(b.size)
		b.closed = nil
	}
	return b.ReadCloser.Close()
}

// template returns an address with placeholders for what has too many values for a metric, as client-go has them.
func (c *Client) template(address *url.URL) url.URL {
	u, query := *address, url.Values{}
	for name := range address.Query() {
		query.Set(name, "{value}")
	}
	u.RawQuery = query.Encode()
	base := strings.TrimSuffix(c.base.Path, "/")
	segments := strings.Split(strings.TrimPrefix(strings.TrimPrefix(u.Path, base), "/"), "/")
	first := 3 // the resource, after apis, group and version
	if segments[0] == "api" {
		first = 2
	}
	if len(segments) > first+2 && segments[first] == "namespaces" {
		segments[first+1] = "{namespace}"
		first += 2
	}
	if len(segments) > first+1 {
		segments[first+1] = "{name}"
	}
	u.Path = base + "/" + strings.Join(segments, "/")
	return u
}
