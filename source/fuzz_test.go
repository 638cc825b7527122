package source_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// canned responds to every request with the same body.
type canned struct {
	contentType string
	body        io.Reader
}

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {c.contentType}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(c.body), Request: r}, nil
}

// FuzzBodies reads arbitrary bodies. Whatever they contain, reading ends, every object has a name and belongs to the
// scope, and the result does not depend on the portions in which the bytes arrive.
func FuzzBodies(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, body []byte, protobuf, isWatch bool) {
		if protobuf {
			compare(t, "application/vnd.kubernetes.protobuf", body, isWatch, outcome[*corev1.Pod])
			return
		}
		compare(t, "application/json", body, isWatch, outcome[*corev1.Pod])
		compare(t, "application/json", body, isWatch, outcome[*unstructured.Unstructured])
	})
}

func compare(t *testing.T, contentType string, body []byte, isWatch bool, outcome func(*testing.T, canned, bool) string) {
	whole := outcome(t, canned{contentType, bytes.NewReader(body)}, isWatch)
	bytewise := outcome(t, canned{contentType, iotest.OneByteReader(bytes.NewReader(body))}, isWatch)
	if whole != bytewise {
		t.Errorf("at once: %s\nbyte by byte: %s", whole, bytewise)
	}
}

// outcome describes the result of reading a body.
func outcome[T object.Object](t *testing.T, c canned, isWatch bool) string {
	client, err := source.NewClient(&rest.Config{Host: "http://server.test", Transport: c})
	if err != nil {
		t.Fatal(err)
	}
	scope := podScope
	scope.MaxObjectBytes = 1 << 16
	from, err := source.NewHTTP[T](client, scope)
	if err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	note := func(o T) {
		if o.GetName() == "" || o.GetNamespace() != "a" {
			t.Errorf("got %v, which does not belong here", o)
		}
		seen.WriteString(o.GetName() + " " + o.GetResourceVersion() + "\n")
	}
	if !isWatch {
		_, err = from.List(t.Context(), source.ListOptions[T]{}, func(o T) error { note(o); return nil })
		return seen.String() + kindOfEnd(err)
	}
	stream, err := from.Watch(t.Context(), source.WatchOptions[T]{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var events []source.Event[T]
	for err == nil {
		events, err = stream.Next(events[:0])
		for _, e := range events {
			seen.WriteString(e.Type.String() + " ")
			if e.Type < source.Bookmark {
				note(e.Object)
			}
		}
	}
	return seen.String() + kindOfEnd(err)
}

func kindOfEnd(err error) string {
	switch err {
	case nil, io.EOF:
		return "end"
	default:
		return "error"
	}
}

// addSeeds adds the bodies that the test server sends.
func addSeeds(f *testing.F) {
	f.Helper()
	s := tidingstest.NewServer(f, tidingstest.ServerOptions{})
	for _, name := range []string{"x", "y"} { // small, because large inputs take long to minimize
		s.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: "u", CreationTimestamp: metav1.Unix(1, 0)}})
	}
	for _, small := range []string{"k8s\x00", "\x00\x00\x00\x00", "{}", `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1"}}`} {
		f.Add([]byte(small), small[0] != '{', true)
		f.Add([]byte(small), small[0] != '{', false)
	}
	for _, query := range []string{"", "?watch=1&resourceVersion=1"} {
		for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
			s.Inject(tidingstest.Watch, tidingstest.Fault{After: 2, End: tidingstest.Close})
			_, body := fetch(f, s, query, accept)
			f.Add(body, strings.Contains(accept, "protobuf"), query != "")
		}
	}
	s.Stop()
}
