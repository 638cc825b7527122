package proto

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// enveloped encodes obj as an API server does.
func enveloped(t testing.TB, obj runtime.Object, kind string) []byte {
	t.Helper()
	obj.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	var buf bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestEnvelope(t *testing.T) {
	pod := wiretest.Pods(1, 1)[0]
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	data := enveloped(t, pod, "Pod")
	e, err := ParseEnvelope(data)
	if err != nil {
		t.Fatal(err)
	}
	if string(e.APIVersion) != "v1" || string(e.Kind) != "Pod" || !bytes.Equal(e.Raw, raw) || len(e.ContentEncoding)+len(e.ContentType) != 0 {
		t.Errorf("got %s %s %q %q", e.APIVersion, e.Kind, e.ContentEncoding, e.ContentType)
	}
	if _, err := ParseEnvelope([]byte(`{"kind":"Pod"}`)); !errors.Is(err, ErrNoMagic) {
		t.Errorf("JSON: got %v", err)
	}
	if _, err := ParseEnvelope(data[:len(data)/2]); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half of an envelope: got %v", err)
	}
}

func TestWatchEvent(t *testing.T) {
	object := enveloped(t, wiretest.Pods(1, 1)[0], "Pod")
	frame, err := (&metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: object}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	e, err := ParseWatchEvent(frame)
	if err != nil || string(e.Type) != "MODIFIED" || !bytes.Equal(e.Object, object) {
		t.Errorf("got %s, %d bytes, %v", e.Type, len(e.Object), err)
	}
	if _, err := ParseWatchEvent(frame[:20]); err == nil {
		t.Error("a cut frame was accepted")
	}
}

func TestPeek(t *testing.T) {
	d, err := New[*corev1.Pod](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range wiretest.Pods(50, 5) {
		data, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		meta, ok := d.Peek(data)
		if got := fmt.Sprintf("%s %s %s %s", meta.Namespace, meta.Name, meta.UID, meta.ResourceVersion); !ok ||
			got != fmt.Sprintf("%s %s %s %s", pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion) {
			t.Fatalf("got %s, %v", got, ok)
		}
		if n := testing.AllocsPerRun(10, func() { d.Peek(data) }); n > 0 {
			t.Fatalf("Peek allocates %v times", n)
		}
		if _, ok := d.Peek(data[:len(data)-1]); ok {
			t.Fatal("Peek accepts a cut object")
		}
	}
	odd := messageField(podMetadata, []byte{7 << 3, 1}, messageField(metaUID, []byte("u")), messageField(fieldOfName, []byte("a")))
	if meta, ok := d.Peek(odd); !ok || string(meta.Name) != "a" || string(meta.UID) != "u" || meta.ResourceVersion != nil {
		t.Errorf("in metadata out of order it finds %q, %t", meta, ok)
	}
	for _, broken := range []string{"\x02\x00", "\x80", "\xc2\x3e\x05", "\xc4\x3e", "\x2a\x05", "\x28\x01", "\x12\x05"} {
		if meta, ok := d.Peek(messageField(podMetadata, messageField(fieldOfName, []byte("a")), []byte(broken))); ok {
			t.Errorf("in metadata with %q it finds %q", broken, meta)
		}
	}
	name := messageField(podMetadata, messageField(fieldOfName, []byte("a")))
	for _, data := range [][]byte{append(name[:len(name):len(name)], name...), append([]byte{podMetadata << 3, 1}, name...), append(name[:len(name):len(name)], podMetadata<<3, 1), append([]byte{podMetadata << 3, 3}, name[2:]...)} {
		if meta, ok := d.Peek(data); ok {
			t.Errorf("in metadata that comes twice, or as something else, it finds %q", meta)
		}
	}
	status, err := New[*metav1.Status](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := status.Peek(messageField(1, messageField(1, []byte("a link")))); ok {
		t.Error("Peek finds the identity of a type that has none")
	}
}

// readList reads a whole list and decodes its items.
func readList(r *ListReader, d *Decoder[*corev1.Pod]) (*corev1.PodList, error) {
	list := &corev1.PodList{}
	for {
		item, err := r.Next()
		if err != nil {
			list.ListMeta, list.TypeMeta = r.Meta(), r.TypeMeta()
			if err == io.EOF {
				err = nil
			}
			return list, err
		}
		pod, err := d.Decode(item, nil)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, *pod)
	}
}

func testList(t testing.TB, n int) (*corev1.PodList, []byte) {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{
		ResourceVersion: "12345", Continue: "more", RemainingItemCount: new(int64(3)), ShardInfo: &metav1.ShardInfo{Selector: "shard"},
	}}
	for i, pod := range wiretest.Pods(n, 6) {
		if i%7 == 3 { // larger than the reader's buffer
			pod.Annotations = map[string]string{"big": strings.Repeat("x", 100_000)}
		}
		list.Items = append(list.Items, *pod)
	}
	return list, enveloped(t, list, "PodList")
}

func TestListReader(t *testing.T) {
	want, data := testList(t, 20)
	readers := map[string]io.Reader{
		"whole":        bytes.NewReader(data),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(data)),
		"halves":       iotest.HalfReader(bytes.NewReader(data)),
		"early EOF":    iotest.DataErrReader(bytes.NewReader(data)),
	}
	for name, r := range readers {
		d, err := New[*corev1.Pod](wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := readList(NewListReader(bufio.NewReader(r), 0), d)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.Kind != "PodList" || got.APIVersion != "v1" {
			t.Errorf("%s: got %+v", name, got.TypeMeta)
		}
		if err := same(got, want); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func TestListReaderErrors(t *testing.T) {
	_, data := testList(t, 4)
	d, err := New[*corev1.Pod](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// The envelope ends with two empty fields of two bytes each, which are optional.
	for n := 0; n < len(data)-4; n += 1 + n/50 {
		r := NewListReader(bufio.NewReader(bytes.NewReader(data[:n])), 0)
		_, err := readList(r, d)
		if !errors.Is(err, io.ErrUnexpectedEOF) && n > 4+2+len("v1PodList")+6 {
			t.Fatalf("cut at %d of %d: got %v", n, len(data), err)
		}
		if _, again := r.Next(); err != nil && again.Error() != err.Error() {
			t.Fatalf("cut at %d: got %v, then %v", n, err, again)
		}
	}
	head := append([]byte(magic), messageField(unknownTypeMeta, messageField(typeMetaKind, []byte("PodList")))...)
	for n := len(magic) + 1; n < len(head); n++ {
		if _, err := NewListReader(bufio.NewReader(bytes.NewReader(head[:n])), 0).Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("an envelope cut at %d: %v", n, err)
		}
	}
	if _, err := NewListReader(bufio.NewReader(bytes.NewReader(head)), 5).Next(); !errors.As(err, new(*LimitError)) {
		t.Errorf("an envelope over the limit: %v", err)
	}
	_, err = readList(NewListReader(bufio.NewReader(bytes.NewReader(data)), 50_000), d)
	if e, ok := errors.AsType[*LimitError](err); !ok || e.Limit != 50_000 || e.Size <= 50_000 || !strings.Contains(err.Error(), "item 3:") {
		t.Errorf("large item: got %v", err)
	}
	if _, err := readList(NewListReader(bufio.NewReader(strings.NewReader(`{"kind"`)), 0), d); !errors.Is(err, ErrNoMagic) {
		t.Errorf("JSON: got %v", err)
	}
	broken := errors.New("connection reset")
	r := NewListReader(bufio.NewReader(io.MultiReader(bytes.NewReader(data[:500]), iotest.ErrReader(broken))), 0)
	if _, err := readList(r, d); !errors.Is(err, broken) {
		t.Errorf("broken connection: got %v", err)
	}
}

// TestItemsOfAllSizes reads items of about the size of the reader's buffer, of the steps in which
// larger ones are read, and of the limit.
func TestItemsOfAllSizes(t *testing.T) {
	const buffer = 4096
	var want, data []byte
	var items [][]byte
	for i, size := range []int{0, 1, buffer - 1, buffer, buffer + 1, 100, 64<<10 - 1, 64 << 10, 64<<10 + 1, 0, 200_000, 5} {
		items = append(items, bytes.Repeat([]byte{byte('a' + i)}, size))
		want = append(want, messageField(listItems, items[i])...)
	}
	data = append([]byte(magic), messageField(unknownRaw, want)...)
	for name, src := range map[string]io.Reader{"whole": bytes.NewReader(data), "halves": iotest.HalfReader(bytes.NewReader(data)), "byte by byte": iotest.OneByteReader(bytes.NewReader(data))} {
		r := NewListReader(bufio.NewReaderSize(src, buffer), 200_000)
		for i := range items {
			item, err := r.Next()
			if err != nil || !bytes.Equal(item, items[i]) || len(item) > 0 && cap(item) < len(item) {
				t.Fatalf("%s: item %d: %d bytes, %v", name, i, len(item), err)
			}
		}
		if item, err := r.Next(); err != io.EOF {
			t.Errorf("%s: %d bytes, %v behind the last", name, len(item), err)
		}
	}
	for limit, n := range map[int]int{1: 2, buffer: 4, -1: len(items), 0: len(items)} {
		r := NewListReader(bufio.NewReaderSize(bytes.NewReader(data), buffer), limit)
		for range n {
			if _, err := r.Next(); err != nil {
				t.Errorf("limit %d: %v", limit, err)
			}
		}
		if _, err := r.Next(); err == nil {
			t.Errorf("limit %d: more than %d items", limit, n)
		}
	}
	r := NewListReader(bufio.NewReaderSize(bytes.NewReader(data), buffer), 199_999)
	var err error
	for err == nil {
		_, err = r.Next()
	}
	if e, ok := errors.AsType[*LimitError](err); !ok || e.Size != 200_000 || len(e.Start) == 0 || len(e.Start) > buffer || !bytes.HasPrefix(items[10], e.Start) {
		t.Errorf("%v", err)
	} else if want := "list: item 10: 200000 bytes are more than the 199999 allowed for one item"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}
