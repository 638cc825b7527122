package source_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/source"
)

// sameAnswer answers every request with the same response, and records what happened to it.
type sameAnswer struct {
	code              int
	contentType, body string

	bodies   []*trackedBody
	ctxs     []context.Context
	requests []*http.Request
}

type trackedBody struct {
	io.Reader
	closed bool
}

func (b *trackedBody) Close() error {
	b.closed = true
	return nil
}

func (a *sameAnswer) RoundTrip(r *http.Request) (*http.Response, error) {
	body := &trackedBody{Reader: strings.NewReader(a.body)}
	a.bodies, a.ctxs, a.requests = append(a.bodies, body), append(a.ctxs, r.Context()), append(a.requests, r)
	return &http.Response{StatusCode: a.code, Header: http.Header{"Content-Type": {a.contentType}}, Body: body, Request: r}, nil
}

// TestNothingIsLeftOpen ends lists and watches in all ways: the connection is released, and the
// request's context is done.
func TestNothingIsLeftOpen(t *testing.T) {
	const (
		pods2 = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`
		event = `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"}}}`
		gone  = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
	)
	refuse := errors.New("no more")
	list := func(t *testing.T, from *source.HTTP[*corev1.Pod]) error {
		_, err := from.List(t.Context(), source.ListOptions[*corev1.Pod]{}, func(*corev1.Pod) error { return nil })
		return err
	}
	watch := func(t *testing.T, from *source.HTTP[*corev1.Pod]) error {
		stream, err := from.Watch(t.Context(), source.WatchOptions[*corev1.Pod]{})
		if err != nil {
			return err
		}
		for err == nil {
			_, err = stream.Next(nil)
		}
		if closed := stream.Close(); closed != nil {
			t.Error(closed)
		}
		return err
	}
	for name, tt := range map[string]struct {
		sameAnswer
		do   func(t *testing.T, from *source.HTTP[*corev1.Pod]) error
		well bool
	}{
		"a list":                     {sameAnswer{code: 200, contentType: "application/json", body: pods2}, list, true},
		"a list that is cut off":     {sameAnswer{code: 200, contentType: "application/json", body: pods2[:120]}, list, false},
		"a list of another type":     {sameAnswer{code: 200, contentType: "text/html", body: "<html>"}, list, false},
		"a list that is refused":     {sameAnswer{code: 403, contentType: "application/json", body: gone}, list, false},
		"a list that has gone":       {sameAnswer{code: 410, contentType: "text/plain", body: "gone"}, list, false},
		"a list of a broken server":  {sameAnswer{code: 500, contentType: "text/plain", body: "oh"}, list, false},
		"a list with nothing to say": {sameAnswer{code: 204}, list, false},
		"a list whose reader gave up": {sameAnswer{code: 200, contentType: "application/json", body: pods2}, func(t *testing.T, from *source.HTTP[*corev1.Pod]) error {
			_, err := from.List(t.Context(), source.ListOptions[*corev1.Pod]{}, func(*corev1.Pod) error { return refuse })
			return err
		}, false},
		"metadata": {sameAnswer{code: 200, contentType: "application/json", body: pods2}, func(t *testing.T, from *source.HTTP[*corev1.Pod]) error {
			return listMetadata(t, from)
		}, true},
		"a watch":                     {sameAnswer{code: 200, contentType: "application/json", body: event}, watch, false},
		"a watch that says it is old": {sameAnswer{code: 200, contentType: "application/json", body: `{"type":"ERROR","object":` + gone + `}`}, watch, false},
		"a watch that is refused":     {sameAnswer{code: 401, contentType: "application/json", body: gone}, watch, false},
		"a watch of another type":     {sameAnswer{code: 200, contentType: "text/html", body: "<html>"}, watch, false},
		"a watch of garbage":          {sameAnswer{code: 200, contentType: "application/json", body: "{]"}, watch, false},
		"a watch that nobody reads": {sameAnswer{code: 200, contentType: "application/json", body: event}, func(t *testing.T, from *source.HTTP[*corev1.Pod]) error {
			stream, err := from.Watch(t.Context(), source.WatchOptions[*corev1.Pod]{})
			if err != nil {
				return err
			}
			return stream.Close()
		}, true},
		"the cluster": {sameAnswer{code: 404, contentType: "application/json", body: "{}"}, func(t *testing.T, from *source.HTTP[*corev1.Pod]) error { return list(t, from) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := source.NewClient(&rest.Config{Host: "http://server.test", Transport: &tt.sameAnswer})
			if err != nil {
				t.Fatal(err)
			}
			from, err := source.NewHTTP[*corev1.Pod](client, source.Scope{Resource: pods})
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.do(t, from); (err == nil) != tt.well {
				t.Errorf("error %v", err)
			}
			if len(tt.bodies) != 1 {
				t.Errorf("%d requests", len(tt.bodies))
			}
			for i, body := range tt.bodies {
				if !body.closed {
					t.Errorf("the body of answer %d is open", i)
				}
				if strings.HasPrefix(name, "a watch") && tt.ctxs[i].Err() == nil {
					t.Errorf("the context of request %d is not done", i)
				}
			}
		})
	}
}

func listMetadata(t *testing.T, from *source.HTTP[*corev1.Pod]) error {
	opts := source.ListOptions[*metav1.PartialObjectMetadata]{}
	ignore := func(*metav1.PartialObjectMetadata) error { return nil }
	_, err := source.InternalsOf(from).ListMetadata(t.Context(), opts, ignore)
	return err
}

// TestStatusInPlaceOfObjects: a Status that comes with code 200 is the server's own explanation, in every encoding.
func TestStatusInPlaceOfObjects(t *testing.T) {
	status := metav1.Status{Status: metav1.StatusFailure, Code: 503, Reason: metav1.StatusReasonServiceUnavailable, Message: "the backend is away"}
	raw, err := status.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	protobuf := "k8s\x00" + string(runtimeUnknown(t, "v1", "Status", raw))
	const text = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":503,"reason":"ServiceUnavailable","message":"the backend is away"}`
	for contentType, body := range map[string]string{"application/vnd.kubernetes.protobuf": protobuf, "application/json": text} {
		client, err := source.NewClient(&rest.Config{Host: "http://server.test", Transport: &sameAnswer{code: 200, contentType: contentType, body: body}})
		if err != nil {
			t.Fatal(err)
		}
		from, err := source.NewHTTP[*corev1.Pod](client, source.Scope{Resource: pods})
		if err != nil {
			t.Fatal(err)
		}
		_, _, listErr := list(t.Context(), from, source.ListOptions[*corev1.Pod]{})
		_, watchErr := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{}).Next(nil)
		for _, err := range []error{listErr, watchErr} {
			if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "the backend is away") {
				t.Errorf("%s: got %v", contentType, err)
			}
		}
	}
}

// TestListInPlaceOfEvents: a list that answers a watch, as behind a proxy that drops the query, is
// not taken for a very large event.
func TestListInPlaceOfEvents(t *testing.T) {
	raw, err := pod("a", "x").Marshal()
	if err != nil {
		t.Fatal(err)
	}
	body := "k8s\x00" + string(runtimeUnknown(t, "v1", "PodList", protoList(t, "5", slices.Repeat([][]byte{raw}, 5000)...)))
	client, err := source.NewClient(&rest.Config{Host: "http://server.test", Transport: &sameAnswer{code: 200, contentType: "application/vnd.kubernetes.protobuf", body: body}})
	if err != nil {
		t.Fatal(err)
	}
	from, err := source.NewHTTP[*corev1.Pod](client, source.Scope{Resource: pods})
	if err != nil {
		t.Fatal(err)
	}
	_, err = mustWatch(t, from, source.WatchOptions[*corev1.Pod]{}).Next(nil)
	const want = `watch: pods: the response is one object, and no stream of events; does a proxy drop the query of the request?`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestErrorsWithoutACause: an error of the network is returned unchanged while the context has not ended.
func TestErrorsWithoutACause(t *testing.T) {
	refused := errors.New("connection refused")
	ended := errors.New("stopped by the test")
	for _, ends := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		client, err := source.NewClient(&rest.Config{Host: "http://server.test", Transport: failing{refused}})
		if err != nil {
			t.Fatal(err)
		}
		from, err := source.NewHTTP[*corev1.Pod](client, source.Scope{Resource: pods})
		if err != nil {
			t.Fatal(err)
		}
		if ends {
			cancel(ended)
		}
		_, err = from.List(ctx, source.ListOptions[*corev1.Pod]{}, func(*corev1.Pod) error { return nil })
		if !errors.Is(err, refused) || errors.Is(err, ended) != ends || strings.Contains(err.Error(), "%!") || strings.Count(err.Error(), "stopped by the test") > 1 {
			t.Errorf("ended %t: %v", ends, err)
		}
		cancel(nil)
	}
}

// failing is a sameAnswer that fails every request.
type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// TestRequestsSayWhoAsks checks the headers of requests.
func TestRequestsSayWhoAsks(t *testing.T) {
	for agent, want := range map[string]string{"": rest.DefaultKubernetesUserAgent(), "mine/1": "mine/1"} {
		a := sameAnswer{code: 500}
		client, err := source.NewClient(&rest.Config{Host: "http://server.test", Transport: &a, UserAgent: agent})
		if err != nil {
			t.Fatal(err)
		}
		from, err := source.NewHTTP[*corev1.Pod](client, source.Scope{Resource: pods})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := from.Watch(t.Context(), source.WatchOptions[*corev1.Pod]{Timeout: 330 * time.Second}); err == nil {
			t.Error("no error")
		}
		if err := listMetadata(t, from); err == nil {
			t.Error("no error")
		}
		if got := a.requests[0].Header.Get("User-Agent"); got != want {
			t.Errorf("user agent %q, want %q", got, want)
		}
		if got := a.requests[0].URL.Query().Get("timeoutSeconds"); got != "330" {
			t.Errorf("timeoutSeconds=%s", got)
		}
		if got := a.requests[1].Header.Get("Accept"); !strings.Contains(got, "as=PartialObjectMetadataList") {
			t.Errorf("metadata is asked for as %q", got)
		}
	}
}
