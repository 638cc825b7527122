package source

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWantedKind(t *testing.T) {
	group := format[*unstructured.Unstructured]{wanted: schema.GroupVersionKind{Group: "shop.test", Version: "v1", Kind: "Widget"}}
	core := format[*unstructured.Unstructured]{wanted: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}}
	for _, tt := range []struct {
		apiVersion, kind string
		group, core      bool
	}{
		{"shop.test/v1", "Widget", true, false}, {"v1", "Pod", false, true}, {"shop.test/v1", "Pod", false, false}, {"v1", "Widget", false, false},
		{"shop.test/v2", "Widget", false, false}, {"shop.tesT/v1", "Widget", false, false}, {"shop.test-v1", "Widget", false, false},
		{"shop.test/v11", "Widget", false, false}, {"", "", false, false}, {"shop.test/v", "Widget", false, false},
	} {
		if got := group.isWanted(tt.apiVersion, tt.kind); got != tt.group {
			t.Errorf("%s %s is the Widget: %t", tt.apiVersion, tt.kind, got)
		}
		if got := core.isWanted(tt.apiVersion, tt.kind); got != tt.core {
			t.Errorf("%s %s is the Pod: %t", tt.apiVersion, tt.kind, got)
		}
	}
}

// TestKindsOfPartialObjects: metadata has its own kind or the scope's, and no other.
func TestKindsOfPartialObjects(t *testing.T) {
	pod, other := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionKind{Version: "v1", Kind: "Node"}
	typed, partial := format[*corev1.Pod]{wanted: pod}, format[*corev1.Pod]{wanted: pod, form: partialForm}
	for _, tt := range []struct {
		got            schema.GroupVersionKind
		typed, partial bool
	}{{pod, true, true}, {schema.GroupVersionKind{}, true, true}, {other, false, false}, {partialKind, false, true}} {
		if err := typed.checkKind(tt.got); (err == nil) != tt.typed {
			t.Errorf("typed, %v: %v", tt.got, err)
		}
		if err := partial.checkKind(tt.got); (err == nil) != tt.partial {
			t.Errorf("partial, %v: %v", tt.got, err)
		}
	}
}

// TestOtherKind: that an object is of another kind is reported instead of why it cannot be decoded as the wanted one.
func TestOtherKind(t *testing.T) {
	c := format[*corev1.Pod]{wanted: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}}
	broken := errors.New("spec is a number")
	if err := c.otherKind([]byte(`{"kind":"Widget","apiVersion":"v1","spec":7}`), broken); errors.Is(err, broken) {
		t.Errorf("a Widget: %v", err)
	}
	for _, text := range []string{`{"kind":"Pod","apiVersion":"v1","spec":7}`, `{"spec":7}`, `{"kind":`} {
		if err := c.otherKind([]byte(text), broken); err != broken {
			t.Errorf("%s: %v", text, err)
		}
	}
	c.protobuf = true
	if err := c.otherKind([]byte(`{"kind":"Widget","apiVersion":"v1"}`), broken); err != broken {
		t.Errorf("in protobuf: %v", err)
	}
}

// idle is a reader that returns nothing a number of times before each byte.
type idle struct {
	times, left int
	bytes       int
}

func (r *idle) Read(p []byte) (int, error) {
	if r.left > 0 {
		r.left--
		return 0, nil
	}
	if r.bytes == 0 {
		return 0, io.EOF
	}
	r.left, r.bytes = r.times, r.bytes-1
	p[0] = 'x'
	return 1, nil
}

// TestEmptyReads continues while a reader returns nothing, but not forever.
func TestEmptyReads(t *testing.T) {
	for times, want := range map[int]error{0: nil, maxEmptyReads: nil, maxEmptyReads + 1: io.ErrNoProgress, 1 << 30: io.ErrNoProgress} {
		a := readAhead{src: &idle{times: times, left: times, bytes: 3}}
		data, err := a.peek(3)
		if err != want || want == nil && string(data) != "xxx" {
			t.Errorf("%d empty reads: %q, %v, want %v", times, data, err, want)
		}
	}
}

// frameOf returns a frame of a watch in protobuf.
func frameOf(n int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(n)), make([]byte, n)...)
}

// TestBufferedFrames: an event is available when its last byte is, and not before.
func TestBufferedFrames(t *testing.T) {
	two := append(frameOf(7), frameOf(9)...)
	for arrived, want := range map[int]bool{11: false, 14: false, 15: false, 16: false, len(two) - 1: false, len(two): true} {
		r := newFrameReader(iotest.DataErrReader(bytes.NewReader(two[:arrived])), 100)
		if _, _, err := r.Next(); !errors.Is(err, errEvent) {
			t.Fatal(err)
		}
		if got := r.Buffered(); got != want {
			t.Errorf("%d of %d bytes: buffered is %t", arrived, len(two), got)
		}
	}
	r := newFrameReader(bytes.NewReader(frameOf(0)), 100)
	if typ, _, err := r.Next(); err != nil || typ != "" {
		t.Errorf("an empty frame: %q, %v", typ, err)
	}
	if _, _, err := r.Next(); err != io.EOF {
		t.Errorf("the end: %v", err)
	}
}

// TestReadNothing returns immediately, even if a body is compressed.
func TestReadNothing(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Write([]byte("text"))
	w.Close()
	body := &gzipBody{in: bufio.NewReader(&packed)}
	if n, err := body.Read(nil); n != 0 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
	if text, err := io.ReadAll(body); string(text) != "text" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
}

// TestUnknownContentEncoding is rejected rather than decoded.
func TestUnknownContentEncoding(t *testing.T) {
	for encoding, want := range map[string]bool{"": true, "zip": false} {
		unknown := runtime.Unknown{ContentEncoding: encoding, Raw: []byte("raw")}
		data, err := unknown.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		e, err := openEnvelope(append([]byte("k8s\x00"), data...))
		if (err == nil) != want || string(e.Raw) != "raw" || !want && !strings.Contains(err.Error(), "zip") {
			t.Errorf("%q: %+v, %v", encoding, e, err)
		}
	}
}

// pieces10 reads ten bytes at a time.
type pieces10 struct{ io.Reader }

func (r pieces10) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 10)]) }

// TestFramesInSmallPieces finds frames of all sizes, one after the other.
func TestFramesInSmallPieces(t *testing.T) {
	var body []byte
	sizes := []int{5, 200_000, 7, 60, 64, defaultBufferSize, maxBufferSize - 4, 1_000_000, 3, 3}
	for i, size := range sizes {
		frame := frameOf(size)
		frame[4], frame[len(frame)-1] = byte(i), byte(i)
		body = append(body, frame...)
	}
	r := newFrameReader(pieces10{bytes.NewReader(body)}, 1<<20)
	for i, size := range sizes {
		if frame, err := r.frame(); err != nil || len(frame) != size || frame[0] != byte(i) || frame[size-1] != byte(i) {
			t.Fatalf("frame %d has %d bytes, %v; want %d", i, len(frame), err, size)
		}
	}
	if _, err := r.frame(); err != io.EOF {
		t.Error(err)
	}
}

// TestBrokenEnvelopes and bookmarks are errors.
func TestBrokenEnvelopes(t *testing.T) {
	c := format[*corev1.Pod]{protobuf: true}
	if raw, err := c.open([]byte("no envelope")); err == nil || raw != nil {
		t.Errorf("no envelope: %q, %v", raw, err)
	}
	if m, err := c.bookmark([]byte("no envelope")); err == nil || m != nil {
		t.Errorf("a bookmark without an envelope: %v, %v", m, err)
	}
	c.protobuf = false
	if m, err := c.bookmark([]byte(`{"metadata":7}`)); err == nil || m != nil {
		t.Errorf("a bookmark without metadata: %v, %v", m, err)
	}
	if m, err := c.bookmark([]byte(`{"metadata":{"resourceVersion":"7"}}`)); err != nil || m.GetResourceVersion() != "7" {
		t.Errorf("a bookmark: %v, %v", m, err)
	}
}

// TestKindsOfClientObjects: metadata has its own kind only if it is requested as such.
func TestKindsOfClientObjects(t *testing.T) {
	scope := Scope{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}}
	typed, partial := clientObjects[*corev1.Pod]{scope: scope}, clientObjects[*metav1.PartialObjectMetadata]{scope: scope}
	for kind, want := range map[schema.GroupVersionKind]struct{ typed, partial bool }{
		{}: {true, true}, scope.Kind: {true, true}, partialKind: {false, true}, {Version: "v1", Kind: "Node"}: {false, false},
	} {
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(kind)
		if err := typed.checkKind(o); (err == nil) != want.typed {
			t.Errorf("typed, %v: %v", kind, err)
		}
		if err := partial.checkKind(o); (err == nil) != want.partial {
			t.Errorf("partial, %v: %v", kind, err)
		}
	}
}
