// Package apiwrite recognizes writes among the requests to an API server, and reads from their answers which objects
// they left in which state, without holding or changing the answers.
package apiwrite

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Request is a request to change objects.
type Request struct {
	// Method is POST, PUT, PATCH or DELETE.
	Method   string
	Resource schema.GroupResource
	// Prefix is what precedes "/api" or "/apis" in the path, as with a proxy, and Version is that of the API.
	Prefix, Version string
	// Subresource is empty for the objects themselves, and Name is empty for collections.
	Subresource, Namespace, Name string
}

// IsCreate reports whether the request creates an object of the resource. Its name may be generated.
func (r Request) IsCreate() bool { return r.Method == http.MethodPost && r.Subresource == "" }

// IsEviction reports whether the request evicts a pod.
func (r Request) IsEviction() bool { return r.Method == http.MethodPost && r.Subresource == "eviction" }

// IsDelete reports whether the request deletes one object; IsDeleteCollection, whether it deletes any number.
func (r Request) IsDelete() bool { return r.Method == http.MethodDelete && r.Name != "" }

// IsDeleteCollection reports whether the request deletes those objects that its query selects.
func (r Request) IsDeleteCollection() bool { return r.Method == http.MethodDelete && r.Name == "" }

// Path returns the path of an object of the resource, or without a name that of the collection.
func (r Request) Path(namespace, name string) string {
	path := r.Prefix + "/api/" + r.Version
	if r.Resource.Group != "" {
		path = r.Prefix + "/apis/" + r.Resource.Group + "/" + r.Version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	path += "/" + r.Resource.Resource
	if name != "" {
		path += "/" + name
	}
	return path
}

// changesNothing has the subresources to which one may send any method without changing the object.
var changesNothing = map[string]bool{"attach": true, "exec": true, "portforward": true, "proxy": true, "log": true, "token": true}

// ParseRequest returns what the request changes. It returns false if it changes nothing, or is not for objects. It
// allocates nothing.
func ParseRequest(r *http.Request) (Request, bool) {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return Request{}, false
	}
	w, ok := parsePath(r.URL.Path)
	w.Method = r.Method
	if !ok || changesNothing[w.Subresource] || w.Name == "" && r.Method != http.MethodPost && r.Method != http.MethodDelete {
		return Request{}, false
	}
	if strings.Contains(r.URL.RawQuery, "dryRun=") && r.URL.Query().Get("dryRun") != "" {
		return Request{}, false
	}
	return w, true
}

// parsePath returns what a path names. The part before "/api/v1" or "/apis" is that of a proxy.
func parsePath(path string) (Request, bool) {
	for rest := path; ; {
		i := strings.Index(rest, "/api")
		if i < 0 {
			return Request{}, false
		}
		rest = rest[i+len("/api"):]
		prefix := path[:len(path)-len(rest)-len("/api")]
		if below, ok := strings.CutPrefix(rest, "/"); ok {
			if version, names, _ := strings.Cut(below, "/"); isVersion(version) {
				return parseNames(Request{Prefix: prefix, Version: version}, "", names)
			}
		} else if below, ok := strings.CutPrefix(rest, "s/"); ok {
			group, below, _ := strings.Cut(below, "/")
			if version, names, _ := strings.Cut(below, "/"); isVersion(version) {
				return parseNames(Request{Prefix: prefix, Version: version}, group, names)
			}
		}
	}
}

// isVersion reports whether s looks like "v1" or "v2beta1".
func isVersion(s string) bool { return len(s) > 1 && s[0] == 'v' && s[1] >= '0' && s[1] <= '9' }

func parseNames(w Request, group, names string) (Request, bool) {
	resource, below, _ := strings.Cut(names, "/")
	if resource == "namespaces" {
		name, more, _ := strings.Cut(below, "/")
		if more != "" && (group != "" || more != "status" && more != "finalize") {
			w.Namespace = name
			resource, below, _ = strings.Cut(more, "/")
		}
	}
	w.Resource = schema.GroupResource{Group: group, Resource: resource}
	w.Name, below, _ = strings.Cut(below, "/")
	w.Subresource, _, _ = strings.Cut(below, "/")
	if w.Resource.Resource == "bindings" && group == "" { // an older form of pods/binding
		return Request{}, false
	}
	return w, resource != ""
}

// Options are what a request's body says about how to delete.
type Options struct {
	DryRun bool
	// Force is set if there is no grace period.
	Force bool
}

// maxOptions is the longest body of options that is looked at.
const maxOptions = 64 << 10

// ReadOptions reads the options of a deletion or eviction from the request's body. It returns a request with the
// same body.
func ReadOptions(r *http.Request) (*http.Request, Options, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, Options{}, nil
	}
	data, rest, err := peek(r)
	if err != nil {
		return r, Options{}, err
	}
	return rest, parseOptions(r.Header.Get("Content-Type"), data), nil
}

// peek reads the beginning of the body.
func peek(r *http.Request) ([]byte, *http.Request, error) {
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, r, err
		}
		defer body.Close()
		data, err := io.ReadAll(io.LimitReader(body, maxOptions))
		return data, r, err
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, maxOptions))
	if err != nil {
		return nil, r, err
	}
	copied := *r
	copied.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(data), r.Body), r.Body}
	return data, &copied, nil
}

// BodyNames returns the name, or the beginning of a generated name, of the object in the request's body, if the body can
// be read twice. They are empty if the object does not say.
func BodyNames(r *http.Request) (name, generated string) {
	if r.GetBody == nil {
		return "", ""
	}
	body, err := r.GetBody()
	if err != nil {
		return "", ""
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxHeld))
	if err != nil {
		return "", ""
	}
	a := Parse(r.Header.Get("Content-Type"), data)
	return a.Object.Name, a.Object.GenerateName
}
