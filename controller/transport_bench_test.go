package controller_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
)

// answers is a transport that answers everything with the same body.
type answers struct {
	media string
	body  []byte
}

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {a.media}}, Body: io.NopCloser(bytes.NewReader(a.body))}, nil
}

// updates returns a function that makes an update through the transport and reads its answer.
func updates(ctx context.Context, transport http.RoundTripper) func() {
	request := must(http.NewRequestWithContext(ctx, http.MethodPut, "http://s/api/v1/namespaces/default/configmaps/a", http.NoBody))
	buf := make([]byte, 8<<10)
	return func() {
		response := must(transport.RoundTrip(request))
		for {
			if _, err := response.Body.Read(buf); err != nil {
				break
			}
		}
		must(0, response.Body.Close())
	}
}

// updateAnswers are the answers to an update of an object of 4 kB, by encoding.
func updateAnswers() map[string]*answers {
	cm := lateConfigMap("a")
	cm.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	cm.UID, cm.ResourceVersion, cm.Labels = "3c1d42a5-2f3e-4cf2-a5b3-63d25d5a1a6d", "1234567", map[string]string{"app": "web", "tier": "front"}
	fields := metav1.NewFieldsV1(`{"f:data":{"f:a":{}},"f:metadata":{"f:labels":{"f:app":{},"f:tier":{}}}}`)
	cm.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: fields}}
	cm.Data["a"] = string(bytes.Repeat([]byte("x"), 3500))
	return map[string]*answers{
		"json":     {runtime.ContentTypeJSON, must(json.Marshal(cm))},
		"protobuf": {runtime.ContentTypeProtobuf, must(runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), cm))},
	}
}

func trackingContext(ctx context.Context) context.Context {
	c := controller.New("c", func(context.Context, tidings.Key) (controller.Result, error) { return controller.Result{}, nil }, controller.Options{})
	must(0, controller.Use(c, &nothingCached{}))
	return c.WithWrites(ctx)
}

// TestTrackingIsCheap counts the allocations that tracking adds to an update.
func TestTrackingIsCheap(t *testing.T) {
	for name, answer := range updateAnswers() {
		ctx := trackingContext(t.Context())
		without := testing.AllocsPerRun(1000, updates(ctx, answer))
		with := testing.AllocsPerRun(1000, updates(ctx, controller.TrackWrites(answer)))
		other := testing.AllocsPerRun(1000, updates(t.Context(), controller.TrackWrites(answer)))
		t.Logf("%s: %v allocations without tracking, %v with it, %v with another context", name, without, with, other)
		if with-without > 10 || other > without {
			t.Errorf("%s: %v allocations without tracking, %v with it, %v with another context", name, without, with, other)
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	for name, answer := range updateAnswers() {
		for tracked, transport := range map[string]http.RoundTripper{"plain": answer, "tracked": controller.TrackWrites(answer)} {
			b.Run(name+"/"+tracked, func(b *testing.B) {
				b.ReportAllocs()
				update := updates(trackingContext(b.Context()), transport)
				for b.Loop() {
					update()
				}
			})
		}
	}
}
