package controller_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/object"
)

// creations answers requests for config maps with objects of these names, which grow.
type creations struct{ next int }

func (c *creations) RoundTrip(*http.Request) (*http.Response, error) {
	c.next++
	metadata := fmt.Sprintf(`{"namespace":"a","name":"c%d","uid":"u%[1]d","resourceVersion":"1"}`, c.next)
	body := fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":%s}`, metadata)
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: 201, Header: header, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// allSeen is a cache of ConfigMaps that has seen every creation.
type allSeen struct {
	controller.Cache[object.Object]
}

func (allSeen) Name() string                                      { return "configmaps" }
func (allSeen) Get(tidings.Key) (object.Object, bool)             { return nil, false }
func (allSeen) ResourceVersionIn(string) string                   { return "1" }
func (allSeen) CoversMetadata(metav1.Object) (covers, known bool) { return true, true }

// BenchmarkListAfterWrites measures what many writes of a reconcile cost, and the first list after them, when the cache has
// seen them all. A second reconcile has written as much meanwhile.
func BenchmarkListAfterWrites(b *testing.B) {
	maps := schema.GroupResource{Resource: "configmaps"}
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := controller.NewOwnWrites(0, func(context.Context) bool { return true })
			w.Add(allSeen{})
			gate := controller.NewKeyGate(w, controller.KeyGateOptions[int]{Enqueue: func(int) {}})
			transport := w.Wrap(&creations{})
			var lists time.Duration
			round := 0
			for b.Loop() {
				round += 2
				ctx := gate.WithKey(b.Context(), round)
				other := gate.WithKey(b.Context(), round+1)
				for range n {
					create(ctx, transport)
					create(other, transport)
				}
				began := time.Now()
				must(0, w.Wait(ctx, maps, tidings.Key{Namespace: "a"}))
				lists += time.Since(began)
			}
			b.ReportMetric(float64(lists.Nanoseconds())/float64(b.N), "ns/list")
		})
	}
}

func create(ctx context.Context, transport http.RoundTripper) {
	const url = "http://s/api/v1/namespaces/a/configmaps"
	request := must(http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody))
	response := must(transport.RoundTrip(request))
	must(io.Copy(io.Discard, response.Body))
	must(0, response.Body.Close())
}
