package measure

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/wire/json"
	"github.com/tidings/tidings/internal/wire/proto"
)

const (
	// pageSize is the number of objects per request, that of client-go's pager and kubectl.
	pageSize = 500
	// pageTimeout limits the time for one page. A server that takes longer has stalled.
	pageTimeout = 2 * time.Minute
	// readSize is the number of bytes read from the connection at once.
	readSize = 64 << 10
)

var errPageTimeout = errors.New("the server took more than " + pageTimeout.String() + " for one page of the list; is it overloaded?")

var errEmptyPage = errors.New("the server sent an empty page of the list and announced more")

// accepts is the Accept header for each encoding. There is no alternative, because results in different encodings
// would not be comparable.
var accepts = map[Encoding]string{Protobuf: "application/vnd.kubernetes.protobuf", JSON: "application/json"}

// fetcher reads encoded objects from a server.
type fetcher struct {
	client   *rest.RESTClient
	sample   int   // number of objects of a resource to keep; 0 means no limit
	maxBytes int64 // limit for their bytes
}

func newFetcher(config *rest.Config, opts Options) (*fetcher, error) {
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion() // only for errors, which are all that the client decodes
	config.QPS = -1                                                 // there is one request at a time
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &fetcher{client: client, sample: opts.Sample, maxBytes: opts.MaxBytes}, nil
}

// collection is what was read of a resource.
type collection struct {
	raw   [][]byte // encoded objects, from the first on
	kept  int64    // bytes of raw
	read  int64    // number of objects read
	bytes int64    // bytes of the objects read
	// unread is the number of remaining objects, according to the server.
	unread int64
	took   time.Duration
}

func (c *collection) objects() int64 { return c.read + c.unread }

// full reports whether no more objects should be kept.
func (f *fetcher) full(c *collection) bool {
	return f.sample > 0 && len(c.raw) >= f.sample || c.kept >= f.maxBytes
}

// fetch reads a resource in these namespaces; an empty one means all. It stops early once it has kept enough and the
// server has said how many objects remain.
func (f *fetcher) fetch(ctx context.Context, resource schema.GroupVersionResource, encoding Encoding, namespaces []string) (*collection, error) {
	c := &collection{}
	began := time.Now()
	for _, namespace := range namespaces {
		if err := f.list(ctx, address(resource, namespace), encoding, c); err != nil {
			return nil, err
		}
	}
	c.took = time.Since(began)
	return c, nil
}

// address returns the URL path of a collection.
func address(r schema.GroupVersionResource, namespace string) string {
	base := path.Join("/apis", r.Group, r.Version)
	if r.Group == "" {
		base = path.Join("/api", r.Version)
	}
	if namespace != "" {
		base = path.Join(base, "namespaces", namespace)
	}
	return path.Join(base, r.Resource)
}

func (f *fetcher) list(ctx context.Context, address string, encoding Encoding, c *collection) error {
	for token := ""; ; {
		before := c.read
		meta, err := f.page(ctx, address, token, encoding, c)
		if err != nil {
			return err
		}
		if token = meta.Continue; token == "" {
			return nil
		}
		if c.read == before {
			return errEmptyPage // the next page may be empty too, and so on forever
		}
		if f.full(c) && meta.RemainingItemCount != nil {
			c.unread += *meta.RemainingItemCount
			return nil
		}
	}
}

// page reads one page of a list and returns its list metadata.
func (f *fetcher) page(ctx context.Context, address, token string, encoding Encoding, c *collection) (metav1.ListMeta, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pageTimeout, errPageTimeout)
	defer cancel()
	request := f.client.Get().AbsPath(address).SetHeader("Accept", accepts[encoding]).Param("limit", strconv.Itoa(f.limit(c)))
	if token != "" {
		request.Param("continue", token)
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return metav1.ListMeta{}, withCause(ctx, err)
	}
	defer body.Close()
	items := newItems(body, encoding)
	for {
		data, err := items.Next()
		if err == io.EOF {
			return items.meta(), nil
		}
		if err != nil {
			return metav1.ListMeta{}, withCause(ctx, err)
		}
		f.keep(c, data)
	}
}

// limit returns the size of the next page, which for a small sample is no larger than that.
func (f *fetcher) limit(c *collection) int {
	if missing := f.sample - len(c.raw); missing > 0 {
		return min(pageSize, missing)
	}
	return pageSize
}

// keep counts an object, and copies it if it belongs to the sample.
func (f *fetcher) keep(c *collection, data []byte) {
	if !f.full(c) {
		c.raw = append(c.raw, bytes.Clone(data))
		c.kept += int64(len(data))
	}
	c.read++
	c.bytes += int64(len(data))
}

// withCause returns why ctx ended, or err if it has not.
func withCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// items iterates over the items of a list.
type items interface {
	Next() ([]byte, error) // valid until the next call; io.EOF at the end
	meta() metav1.ListMeta // complete at the end
}

type protobufItems struct{ *proto.ListReader }

func (i protobufItems) meta() metav1.ListMeta { return i.Meta() }

type jsonItems struct{ *json.ListReader }

func (i jsonItems) meta() metav1.ListMeta { return i.Head().ListMeta }

func newItems(body io.Reader, encoding Encoding) items {
	if encoding == Protobuf {
		return protobufItems{proto.NewListReader(bufio.NewReaderSize(body, readSize), 0)}
	}
	return jsonItems{json.NewListReader(body, 0)}
}
