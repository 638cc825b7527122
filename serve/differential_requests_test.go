package serve

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/protocol"
)

// object returns an object of a resource; nil of those that are not changed.
func (w *compareWorld) object(r compared, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	target, _ := protocol.ParsePath(r.list)
	set := func(kind string, content map[string]any) {
		u.Object = content
		u.SetGroupVersionKind(target.Resource.GroupVersion().WithKind(kind))
	}
	color := map[string]any{"spec": map[string]any{"color": pick(w.random, []string{"red", "blue"}), "n": int64(7)}}
	switch target.Resource.Resource {
	case "configmaps":
		text := strings.Repeat("x", pick(w.random, []int{1, 10, 150 << 10}))
		set("ConfigMap", map[string]any{"data": map[string]any{"text": text}})
	case "pods":
		set("Pod", map[string]any{"spec": map[string]any{
			"nodeName":   "node-" + pick(w.random, comparedNames),
			"containers": []any{map[string]any{"name": "c", "image": "i"}},
		}})
	case "nodes":
		name = "node-" + name
		set("Node", map[string]any{})
	case "events":
		set("Event", map[string]any{"reason": pick(w.random, []string{"R", "S"}),
			"involvedObject": map[string]any{"namespace": namespace, "name": pick(w.random, comparedNames)}})
	case "widgets":
		set("Widget", color)
	case "gadgets":
		set("Gadget", color)
	default:
		return nil
	}
	u.SetName(name)
	if r.namespaced {
		u.SetNamespace(namespace)
	}
	u.SetLabels(map[string]string{"n": name, "half": pick(w.random, []string{"x", "y"})})
	return u
}

// comparedRequest is a request to both servers.
type comparedRequest struct {
	user, method, path string
	query              url.Values
	header             http.Header
	body               string
	http1              bool
}

func (r *comparedRequest) String() string {
	return fmt.Sprintf("%s: %s %s?%s %v (HTTP/1.1: %t)", r.user, r.method, r.path, r.query.Encode(), r.header, r.http1)
}

// some returns one of the values, or the first with a chance of n-1 to n.
func (w *compareWorld) some(n int, values ...string) string {
	if w.random.IntN(n) > 0 {
		return values[0]
	}
	return pick(w.random, values)
}

func (w *compareWorld) oneOf(of *[]string, otherwise string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(*of) == 0 {
		return otherwise
	}
	return pick(w.random, (*of)[max(0, len(*of)-20):])
}

func (w *compareWorld) randomRequest() *comparedRequest {
	r := &comparedRequest{
		user:   w.some(3, "all", "getter", "lister", "only-a", "none", "invalid"),
		method: w.some(30, http.MethodGet, http.MethodHead, http.MethodOptions),
		query:  url.Values{}, header: http.Header{}, http1: w.random.IntN(2) == 0,
	}
	of := pick(w.random, comparedResources)
	single := w.randomPath(r, of)
	set := func(n int, name string, values ...string) {
		if w.random.IntN(n) == 0 {
			r.query.Set(name, pick(w.random, values))
		}
	}
	known := w.oneOf(&w.versions, "1")
	set(1, "resourceVersion", "", "0", "0", known, known, w.oneOf(&w.versions, "0"), "1", "00", "x")
	if r.query.Get("resourceVersion") == "" || w.random.IntN(50) == 0 {
		r.query.Del("resourceVersion")
	}
	if !single {
		set(4, "resourceVersionMatch", "Exact", "NotOlderThan", "NotOlderThan", "x")
		set(3, "limit", "1", "1", "2", "3", "500", "0", "-1", "x")
		set(6, "labelSelector", "half=x", "half!=x", "n in (a,b)", "!n", "a in (", "n")
		set(4, "fieldSelector", of.fields...)
		if w.random.IntN(10) == 0 {
			r.query.Set("continue", w.oneOf(&w.tokens, "none"))
			if w.random.IntN(4) > 0 {
				r.query.Del("resourceVersion")
				r.query.Del("resourceVersionMatch")
			}
		}
		if w.random.IntN(30) == 0 {
			w.makeWatch(r, known)
		}
	}
	set(60, "timeout", "1m", "x", "0")
	set(60, "pretty", "true", "x")
	set(60, "unknown", "x")
	w.randomHeader(r)
	if r.method == http.MethodPost { // the answer has the time at which it was made, which replyOf finds in JSON
		r.header.Set("Accept", "application/json")
	}
	return r
}

// makeWatch makes a request a watch of five seconds, which is long enough for a busy machine.
func (w *compareWorld) makeWatch(r *comparedRequest, known string) {
	r.query.Set("watch", w.some(5, "true", "1", "false", "x"))
	r.query.Set("timeoutSeconds", "5")
	if w.random.IntN(3) > 0 {
		r.query = url.Values{"watch": {"true"}, "timeoutSeconds": {"5"}, "resourceVersion": {pick(w.random,
			[]string{"0", known})}}
	}
	if w.random.IntN(3) == 0 {
		r.query.Set("sendInitialEvents", "true")
		r.query.Set("resourceVersionMatch", "NotOlderThan")
		r.query.Set("allowWatchBookmarks", "true")
	}
}

// randomPath chooses what is read, and reports whether that is one object.
func (w *compareWorld) randomPath(r *comparedRequest, of compared) (single bool) {
	r.path = of.list
	i := strings.LastIndex(of.list, "/")
	name := pick(w.random, append([]string{"none", "node-a", "n1"}, comparedNames...))
	if of.namespaced && w.random.IntN(3) > 0 {
		r.path = of.list[:i] + "/namespaces/" + pick(w.random, comparedNamespaces) + of.list[i:]
	}
	if w.random.IntN(3) == 0 {
		r.path += "/" + name
		single = true
	}
	switch w.random.IntN(40) {
	case 0:
		r.path += "/"
	case 1:
		r.path += "/status"
	case 2:
		r.path = pick(w.random, []string{"/version", "/api", "/apis/example.com/v1", "/apis/none/v1/x", "/none", "/"})
	case 3:
		r.method, r.path, r.query = http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", url.Values{}
		r.body = `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`
		r.header.Set("Content-Type", "application/json")
	}
	return single
}

// randomHeader chooses headers, most of which no client sends.
func (w *compareWorld) randomHeader(r *comparedRequest) {
	r.header.Set("Accept", w.some(2, "application/json", "application/vnd.kubernetes.protobuf",
		"application/vnd.kubernetes.protobuf,application/json", "*/*", "application/yaml", "text/plain", "",
		"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
		"application/json;drop=metadata.managedFields,application/json",
		"application/json;as=Table;g=meta.k8s.io;v=v1", "application/json;q=0.1,application/yaml"))
	set := func(n int, name string, values ...string) {
		if w.random.IntN(n) == 0 {
			r.header[name] = append(r.header[name], pick(w.random, values))
		}
	}
	set(3, "Accept-Encoding", "gzip", "identity", "gzip;q=1", "br")
	set(20, "Accept", "application/yaml", "application/json")
	set(20, "Impersonate-User", "system:serviceaccount:default:none", "system:serviceaccount:default:all", "nobody")
	set(30, "Impersonate-Group", "system:masters", "system:authenticated")
	set(30, "Impersonate-Uid", "1")
	set(30, "X-Remote-User", "system:admin")
	set(30, "X-Remote-Group", "system:masters")
	set(40, "Authorization", "Bearer x", "Basic eDp5", "bearer")
	set(40, "User-Agent", "x")
	set(40, "If-None-Match", `"x"`)
	set(40, "X-Forwarded-For", "10.0.0.1")
	set(40, "Te", "trailers", "gzip")
	set(60, "Content-Type", "application/yaml", "x")
	set(60, "Content-Encoding", "gzip")
	if r.http1 {
		set(20, "Connection", "close", "keep-alive", "Impersonate-User", "Authorization, close", "X-Remote-User",
			"Accept",
			"upgrade", "x-upgrade")
		set(40, "Upgrade", "websocket", "none")
		set(60, "Trailer", "Authorization")
	}
}
