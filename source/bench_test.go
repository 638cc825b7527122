package source_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// BenchmarkWatch reads a watch of 1,000 pods that differ only in their names: the cost of an event apart from
// the objects themselves. One operation is one event.
func BenchmarkWatch(b *testing.B) {
	const events = 1000
	s := tidingstest.NewServer(b, tidingstest.ServerOptions{})
	for i := range events {
		s.Create(pod("a", fmt.Sprint("p", i)))
	}
	body := func(accept string) []byte {
		s.Inject(tidingstest.Watch, tidingstest.Fault{After: events, End: tidingstest.Close})
		_, body := fetch(b, s, "?watch=1&resourceVersion=1", accept)
		return body
	}
	b.Run("protobuf", func(b *testing.B) {
		const accept = "application/vnd.kubernetes.protobuf"
		benchmarkWatch[*corev1.Pod](b, canned{contentType: accept}, body(accept), events)
	})
	b.Run("JSON", func(b *testing.B) {
		const accept = "application/json"
		benchmarkWatch[*unstructured.Unstructured](b, canned{contentType: accept}, body(accept), events)
	})
}

func benchmarkWatch[T object.Object](b *testing.B, c canned, body []byte, events int) {
	reader := bytes.NewReader(body)
	c.body = reader
	client, err := source.NewClient(&rest.Config{Host: "http://server.test", Transport: c})
	if err != nil {
		b.Fatal(err)
	}
	from, err := source.NewHTTP[T](client, source.Scope{Resource: pods})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body) / events))
	b.ReportAllocs()
	var buf []source.Event[T]
	left := 0
	var stream source.Stream[T]
	for b.Loop() {
		if left == 0 {
			reader.Reset(body)
			if stream, err = from.Watch(b.Context(), source.WatchOptions[T]{}); err != nil {
				b.Fatal(err)
			}
			left = events
		}
		if len(buf) == 0 {
			if buf, err = stream.Next(buf); err != nil && err != io.EOF {
				b.Fatal(err)
			}
		}
		buf = buf[:len(buf)-1]
		left--
	}
}
