package source

import (
	"context"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/object"
)

// watchFrame encodes a watch event with a pod of about size bytes.
func watchFrame(t *testing.T, kind string, size int) []byte {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "2",
		Annotations: map[string]string{"a": strings.Repeat("x", size)},
	}}
	info, _ := apiruntime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(),
		apiruntime.ContentTypeProtobuf)
	raw, err := apiruntime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), pod)
	if err != nil {
		t.Fatal(err)
	}
	event := metav1.WatchEvent{Type: kind, Object: apiruntime.RawExtension{Raw: raw}}
	data, err := event.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}

// TestIdleWatchKeepsNoBuffer: once a watch has caught up, nothing of it holds the buffer that it read a large event
// into: neither the reader, nor what was said of the event's object.
func TestIdleWatchKeepsNoBuffer(t *testing.T) {
	next := make(chan []byte)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", protobufType)
		for {
			select {
			case data := <-next:
				_, _ = w.Write(data)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	defer server.Close()
	client, err := NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	from, err := NewHTTP[*corev1.Pod](client, Scope{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { next <- watchFrame(t, "MODIFIED", defaultBufferSize) }()
	watch, err := from.Watch(context.Background(), WatchOptions[*corev1.Pod]{
		Previous: func(object.Key) (*corev1.Pod, bool) { return nil, false },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	events, err := watch.Next(nil)
	if err != nil || len(events) != 1 || events[0].Type != Modified {
		t.Fatalf("%d events, error %v", len(events), err)
	}
	in := watch.(*stream[*corev1.Pod]).events.(*frameReader).in
	if len(in.buf) != maxBufferSize {
		t.Fatalf("the event was read into %d bytes", len(in.buf))
	}
	buffer := weak.Make((*[maxBufferSize]byte)(in.buf))
	go func() { next <- watchFrame(t, "BOOKMARK", 0) }()
	if events, err = watch.Next(nil); err != nil || events[0].Type != Bookmark {
		t.Fatalf("%v, error %v", events, err)
	}
	runtime.GC() // twice, because the pool keeps what it has until the second
	runtime.GC()
	if buffer.Value() != nil {
		t.Error("the buffer of the earlier event is still in use")
	}
	runtime.KeepAlive(watch)
}
