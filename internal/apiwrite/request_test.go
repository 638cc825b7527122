package apiwrite

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRequests(t *testing.T) {
	pods, jobs := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Group: "batch", Resource: "jobs"}
	namespaces := schema.GroupResource{Resource: "namespaces"}
	for call, want := range map[string]Request{
		"GET /api/v1/namespaces/a/pods/b":                      {},
		"POST /api/v1/namespaces/a/pods":                       {Resource: pods, Namespace: "a"},
		"POST /api/v1/namespaces/a/pods?dryRun=All":            {},
		"POST /api/v1/namespaces/a/pods?dryRun=&x=y":           {Resource: pods, Namespace: "a"},
		"PUT /api/v1/namespaces/a/pods/b/status":               {Resource: pods, Namespace: "a", Name: "b", Subresource: "status"},
		"POST /api/v1/namespaces/a/pods/b/exec":                {},
		"POST /api/v1/namespaces/a/pods/b/proxy/x/y":           {},
		"POST /api/v1/namespaces/a/pods/b/eviction":            {Resource: pods, Namespace: "a", Name: "b", Subresource: "eviction"},
		"DELETE /apis/batch/v1/namespaces/a/jobs":              {Resource: jobs, Namespace: "a"},
		"DELETE /apis/batch/v1/jobs":                           {Resource: jobs},
		"PATCH /apis/batch/v1beta1/namespaces/status/jobs/x":   {Resource: jobs, Namespace: "status", Name: "x"},
		"PATCH /apis/batch/v1/namespaces/a/jobs":               {},
		"PUT /api/v1/namespaces/a":                             {Resource: namespaces, Name: "a"},
		"PUT /api/v1/namespaces/a/finalize":                    {Resource: namespaces, Name: "a", Subresource: "finalize"},
		"POST /api/v1/namespaces":                              {Resource: namespaces},
		"DELETE /api/v1/namespaces/api/pods/v1":                {Resource: pods, Namespace: "api", Name: "v1"},
		"DELETE /k8s/clusters/c-1/api/v1/namespaces/a/pods/b":  {Resource: pods, Namespace: "a", Name: "b"},
		"POST /api/clusters/1/apis/batch/v1/namespaces/a/jobs": {Resource: jobs, Namespace: "a"},
		"PUT /apis/batch/v9/namespaces/a/jobs/b":               {Resource: jobs, Namespace: "a", Name: "b"},
		"PUT /apis/batch/v0beta1/namespaces/a/jobs/b":          {Resource: jobs, Namespace: "a", Name: "b"},
		"PUT /apis/batch/v/namespaces/a/jobs/b":                {},
		"PUT /apis/batch/vx/namespaces/a/jobs/b":               {},
		"POST /apiserver/login":                                {},
		"POST /oauth/token":                                    {},
		"POST /apis":                                           {},
		"POST /api/v1":                                         {},
	} {
		method, url, _ := strings.Cut(call, " ")
		got, ok := ParseRequest(httptest.NewRequest(method, url, nil))
		if ok {
			want.Method = method
			path, _, _ := strings.Cut(url, "?")
			if p := got.Path(got.Namespace, got.Name); p != strings.TrimSuffix(path, "/"+got.Subresource) {
				t.Errorf("%s: the path is %s", call, p)
			}
			got.Prefix, got.Version = "", ""
		} else {
			got = Request{}
		}
		if got != want || ok != (want.Resource.Resource != "") {
			t.Errorf("%s: got %+v %v, want %+v", call, got, ok, want)
		}
	}
}

// TestKindsOfRequests says of each kind of request what it is.
func TestKindsOfRequests(t *testing.T) {
	for call, want := range map[string]string{
		"POST /api/v1/namespaces/a/pods":            "create",
		"POST /api/v1/namespaces/a/pods/b/eviction": "eviction",
		"POST /api/v1/namespaces/a/pods/b/binding":  "",
		"PUT /api/v1/namespaces/a/pods/b/eviction":  "",
		"PUT /api/v1/namespaces/a/pods/b":           "",
		"PATCH /api/v1/namespaces/a/pods/b":         "",
		"DELETE /api/v1/namespaces/a/pods/b":        "delete",
		"DELETE /api/v1/namespaces/a/pods":          "collection",
	} {
		method, url, _ := strings.Cut(call, " ")
		r, ok := ParseRequest(httptest.NewRequest(method, url, nil))
		got := map[string]bool{
			"create": r.IsCreate(), "eviction": r.IsEviction(), "delete": r.IsDelete(),
			"collection": r.IsDeleteCollection(),
		}
		for kind, is := range got {
			if !ok || is != (kind == want) {
				t.Errorf("%s: %v, want %q", call, got, want)
			}
		}
	}
}

// TestBodyThatCannotBeRead ends a request, unless it can be read again, when that is tried again.
func TestBodyThatCannotBeRead(t *testing.T) {
	broken := io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF))
	r, err := http.NewRequest(http.MethodDelete, "http://s/api/v1/namespaces/a", broken)
	if err != nil {
		t.Fatal(err)
	}
	if got, options, err := ReadOptions(r); err != io.ErrUnexpectedEOF || got != r || options != (Options{}) {
		t.Errorf("a body that is broken: %v, %+v, %v", got, options, err)
	}
	r.GetBody = func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe }
	if _, _, err := ReadOptions(r); err != io.ErrClosedPipe {
		t.Errorf("a body that cannot be had again: %v", err)
	}
	r.Body, r.GetBody = http.NoBody, nil
	if got, options, err := ReadOptions(r); err != nil || got != r || options != (Options{}) {
		t.Errorf("no body: %v, %+v, %v", got, options, err)
	}
}

// TestLongBodies keeps what follows the beginning that is looked at.
func TestLongBodies(t *testing.T) {
	body := `{"dryRun":["All"]}` + strings.Repeat(" ", maxOptions)
	once, err := http.NewRequest(
		http.MethodDelete,
		"http://s/api/v1/namespaces/a",
		io.NopCloser(strings.NewReader(body)),
	)
	if err != nil {
		t.Fatal(err)
	}
	r, options, err := ReadOptions(once)
	if err != nil || !options.DryRun {
		t.Errorf("%+v %v", options, err)
	}
	if got, err := io.ReadAll(r.Body); string(got) != body || err != nil {
		t.Errorf("%d bytes, want %d; %v", len(got), len(body), err)
	}
}

func TestParseRequestAllocatesNothing(t *testing.T) {
	r := httptest.NewRequest(http.MethodPut, "/apis/batch/v1/namespaces/a/jobs/b/status", nil)
	if n := testing.AllocsPerRun(100, func() { ParseRequest(r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestReadOptionsKeepsTheBody, whether it can be read twice or not.
func TestReadOptionsKeepsTheBody(t *testing.T) {
	const body = `{"kind":"DeleteOptions","dryRun":["All"]}`
	twice, _ := http.NewRequest(http.MethodDelete, "http://s/api/v1/namespaces/a", strings.NewReader(body))
	once, _ := http.NewRequest(http.MethodDelete, "http://s/api/v1/namespaces/a", io.NopCloser(strings.NewReader(body)))
	for _, r := range []*http.Request{twice, once} {
		r, options, err := ReadOptions(r)
		if err != nil || !options.DryRun {
			t.Errorf("%+v %v", options, err)
		}
		if got, err := io.ReadAll(r.Body); string(got) != body || err != nil {
			t.Errorf("%q %v", got, err)
		}
	}
}

// closed tells whether a body was closed.
type closed struct {
	io.Reader
	closed *bool
}

func (c closed) Close() error {
	*c.closed = true
	return nil
}

// TestBodyNames reads the names of objects that are sent.
func TestBodyNames(t *testing.T) {
	for body, want := range map[string]string{
		`{"kind":"Pod","metadata":{"name":"a"}}`: "a", `{"kind":"Pod","metadata":{"generateName":"a-"}}`: "",
		`{`: "", ``: "",
	} {
		r, err := http.NewRequest(http.MethodPost, "http://s/api/v1/namespaces/a/pods", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		wasClosed := false
		r.GetBody = func() (io.ReadCloser, error) { return closed{strings.NewReader(body), &wasClosed}, nil }
		if got, _ := BodyNames(r); got != want || !wasClosed {
			t.Errorf("%s: name %q, want %q; closed: %v", body, got, want, wasClosed)
		}
		for _, r.GetBody = range []func() (io.ReadCloser, error){
			nil, func() (io.ReadCloser, error) { return nil, io.ErrUnexpectedEOF },
			func() (io.ReadCloser, error) { return closed{iotest.ErrReader(io.ErrUnexpectedEOF), &wasClosed}, nil },
		} {
			if got, _ := BodyNames(r); got != "" {
				t.Errorf("of a body that cannot be read again: %q", got)
			}
		}
	}
}
