package serve

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings/internal/protocol"
)

// exchange is a request that is answered from memory, and its response.
type exchange struct {
	server   *Server
	w        http.ResponseWriter
	r        *http.Request
	resource *resource
	found    *foundResource
	target   protocol.Target
	query    url.Values
	encoding protocol.Encoding
	view     view // of the collection since before the caller was authorized; see answer
	started  bool
}

// staleAfter is how long the API server may be silent before answers say how old they are. Bookmarks come every minute.
const staleAfter = 90 * time.Second

// start writes the header of the response.
func (x *exchange) start(watch bool) {
	x.started = true
	h := x.w.Header()
	h.Set("Content-Type", x.encoding.ContentType(watch))
	setPrivate(h)
	// Only then can the answer be older than its client expects; all others have the API server's headers.
	if age := x.found.age(); age > int(staleAfter/time.Second) || x.found.reflector.Status().Problem != nil {
		h.Set("Age", strconv.Itoa(age))
	}
}

func (x *exchange) get() error {
	o, err := protocol.Get(x.r.Context(), x.view, &x.found.ResourceType, x.target, x.query)
	if err != nil {
		return err
	}
	data, err := x.encoding.Encode(o)
	if err != nil {
		return x.lossy(err)
	}
	return x.write(len(data), func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

func (x *exchange) list() error {
	selection, err := protocol.NewSelection(&x.found.ResourceType, x.target, x.query, false, false)
	if err != nil {
		return err
	}
	if err := x.encoding.CheckList(); err != nil {
		return err
	}
	if !x.canSelect(selection) || x.isAhead(selection.Options.Continue) {
		return errForward
	}
	if o := selection.Options; o.Limit > 0 && o.ResourceVersion == "0" && x.isUncached() {
		return errForward
	}
	page, err := protocol.ListPage(x.r.Context(), x.view, selection)
	if err != nil {
		return err
	}
	items, size := make([]runtime.Object, len(page.Items)), int64(0)
	for i, o := range page.Items {
		items[i] = o
		size += encodedSize(o)
	}
	return x.write(int(size), func(w io.Writer) error {
		return x.lossy(x.encoding.WriteList(w, items, page.ListMeta()))
	})
}

// isUncached reports whether an API server has no cache of a resource, unless it was told to, so that it answers pages
// where it would give everything that is in a cache.
func (x *exchange) isUncached() bool { return x.found.BuiltIn && x.found.Resource == "events" }

// isAhead reports whether a continue token is of a version that has not been reached here. It comes from the API
// server, which takes it at once, or from another replica.
func (x *exchange) isAhead(token string) bool {
	t, err := protocol.ParseToken(token)
	return err == nil && t.ResourceVersion > 0 && uint64(t.ResourceVersion) > x.view.Version()
}

// canSelect reports whether the fields of a selector can be read here. Which fields of a custom resource can be
// selected is known to the API server alone if it does not publish that.
func (x *exchange) canSelect(s *protocol.Selection) bool {
	selector := s.Options.FieldSelector
	if selector == nil {
		return true
	}
	if x.found.BuiltIn {
		// Which kinds without namespaces refuse this field is not known of all.
		return x.found.Namespaced || !slices.ContainsFunc(selector.Requirements(), func(r fields.Requirement) bool {
			return r.Field == "metadata.namespace"
		})
	}
	for _, requirement := range selector.Requirements() {
		if !strings.HasPrefix(requirement.Field, "metadata.") &&
			!slices.Contains(x.found.SelectableFields, "."+requirement.Field) {
			return false
		}
	}
	return true
}

// lossy remembers that objects cannot be decoded exactly.
func (x *exchange) lossy(err error) error {
	if err == protocol.ErrLossy {
		x.resource.lossy.Store(true)
	}
	return err
}

// gzipFrom is the size from which an API server compresses, and gzipLevel how well.
const (
	gzipFrom  = 128 << 10
	gzipLevel = 1
)

// compressors are kept because each has large tables.
var compressors = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzipLevel) // cannot fail for a constant level
	return z
}}

// write sends a body of about size bytes. The header is sent with the first bytes, so that an error
// before them can be answered otherwise.
func (x *exchange) write(size int, body func(io.Writer) error) error {
	out := bufio.NewWriterSize(&starting{x: x}, 64<<10)
	var w io.Writer = out
	var z *gzip.Writer
	if size >= gzipFrom && acceptsGzip(x.r.Header.Get("Accept-Encoding")) {
		x.w.Header().Set("Content-Encoding", "gzip")
		x.w.Header().Set("Vary", "Accept-Encoding")
		z = compressors.Get().(*gzip.Writer)
		defer func() {
			z.Reset(io.Discard) // in the pool it must not keep the connection
			compressors.Put(z)
		}()
		z.Reset(out)
		w = z
	}
	err := body(w)
	if err == nil && z != nil {
		err = z.Close()
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil && !x.started {
		x.w.Header().Del("Content-Encoding")
		x.w.Header().Del("Vary")
	}
	return err
}

// acceptsGzip reports whether a client accepts gzip without a weight. Like an API server, the replica does not compress
// for any other.
func acceptsGzip(header string) bool {
	for encoding := range strings.SplitSeq(header, ",") {
		if strings.TrimSpace(encoding) == "gzip" {
			return true
		}
	}
	return false
}

// starting starts the response with the first bytes. A client that does not read is cut.
type starting struct{ x *exchange }

func (s *starting) Write(p []byte) (int, error) {
	if !s.x.started {
		s.x.start(false)
	}
	s.x.extendDeadline()
	return s.x.w.Write(p)
}

// extendDeadline gives the client time to read what is sent next.
func (x *exchange) extendDeadline() {
	deadline := time.Now().Add(x.server.options.WriteTimeout)
	_ = http.NewResponseController(x.w).SetWriteDeadline(deadline) // not all writers have one
}
