package serve

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/serve/internal/replica"
)

// exchange is a request that is answered from memory, and its response.
type exchange struct {
	server   *Server
	w        http.ResponseWriter
	r        *http.Request
	resource *replica.Resource
	found    *replica.Found
	target   protocol.Target
	query    url.Values
	encoding protocol.Encoding
	view     replica.View // of the collection since before the caller was authorized; see answer
	started  bool
}

// start writes the header of the response.
func (x *exchange) start(watch bool) {
	x.started = true
	h := x.w.Header()
	h.Set("Content-Type", x.encoding.ContentType(watch))
	setPrivate(h)
	// Only then can the answer be older than its client expects; all others have the API server's headers.
	if age := x.found.Age(); age > int(replica.StaleAfter/time.Second) || x.found.Problem() != nil {
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
	return x.write(func(w io.Writer) error {
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
		return replica.ErrForward
	}
	if o := selection.Options; o.Limit > 0 && (o.ResourceVersion == "0" && x.isUncached() || isNarrowed(selection)) {
		return replica.ErrForward
	}
	page, err := protocol.ListPage(x.r.Context(), x.view, selection)
	if err != nil {
		return err
	}
	items := make([]runtime.Object, len(page.Items))
	for i, o := range page.Items {
		items[i] = o
	}
	return x.write(func(w io.Writer) error {
		return x.lossy(x.encoding.WriteList(w, items, page.ListMeta()))
	})
}

// isNarrowed reports whether a list is of all namespaces and its field selector names one. An API server then reads that
// one alone for the first page, but not for those that follow: only itself knows what its token means to it.
func isNarrowed(s *protocol.Selection) bool {
	if s.Namespace != "" || s.Options.FieldSelector == nil {
		return false
	}
	_, named := s.Options.FieldSelector.RequiresExactMatch("metadata.namespace")
	return named
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
		x.resource.SetLossy()
	}
	return err
}

// extendDeadline gives the client time to read what is sent next.
func (x *exchange) extendDeadline() {
	deadline := time.Now().Add(x.server.options.WriteTimeout)
	_ = http.NewResponseController(x.w).SetWriteDeadline(deadline) // not all writers have one
}
