package codec

import (
	"maps"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
)

// rawMeta is what of an object's metadata a Raw has.
func rawMeta(o metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: o.Name, Namespace: o.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion, Labels: o.Labels,
	}
}

// checkRaw fails the test unless r has this metadata.
func checkRaw(t *testing.T, name string, r object.Object, want metav1.ObjectMeta) {
	t.Helper()
	if got := r.(*Raw).ObjectMeta; !equalWithNil(got, rawMeta(want)) {
		t.Errorf("%s: %+v, want %+v", name, got, rawMeta(want))
	}
}

// rawPods are pods with all of the metadata, with some, and with none.
func rawPods() []*corev1.Pod {
	pods := wiretest.Pods(20, 3)
	for i := range 5 { // each without another field
		p := pods[i].DeepCopy()
		clear := []func(){
			func() { p.Name = "" }, func() { p.Namespace = "" }, func() { p.UID = "" },
			func() { p.ResourceVersion = "" }, func() { p.Labels = nil },
		}
		clear[i]()
		pods = append(pods, p)
	}
	odd := metav1.ObjectMeta{Labels: map[string]string{"": "", "a": "", "b": "c"}, Generation: 7}
	return append(pods, &corev1.Pod{}, &corev1.Pod{ObjectMeta: odd})
}

// TestRawProtobuf has the metadata and the bytes of an object; with another version, only that differs.
func TestRawProtobuf(t *testing.T) {
	for _, p := range rawPods() {
		data, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		r, err := ParseRaw(data, true)
		if err != nil {
			t.Fatal(err)
		}
		checkRaw(t, "decoded", r, p.ObjectMeta)
		if kept, protobuf := r.Encoding(); !protobuf || string(kept) != string(data) {
			t.Errorf("kept %d bytes of %d, protobuf %t", len(kept), len(data), protobuf)
		}
		if &data[0] == &r.data[0] {
			t.Fatal("the bytes belong to the caller")
		}
		peeked, ok := RawDecoder(true).Peek(data)
		if ok != (p.Name != "") || string(peeked.Name) != p.Name || string(peeked.Namespace) != p.Namespace ||
			string(peeked.UID) != string(p.UID) || string(peeked.ResourceVersion) != p.ResourceVersion {
			t.Errorf("peeked at %+v, %t, want %+v", peeked, ok, rawMeta(p.ObjectMeta))
		}
		before, want := r.ResourceVersion, p.DeepCopy()
		want.ResourceVersion = "another"
		changed := r.WithResourceVersion("another").(*Raw)
		checkRaw(t, "with another version", changed, want.ObjectMeta)
		var back corev1.Pod
		if err := back.Unmarshal(changed.data); err != nil || !equalWithNil(&back, want) {
			t.Errorf("with another version: %+v, %v, want %+v", back.ObjectMeta, err, want.ObjectMeta)
		}
		if r.ResourceVersion != before || string(r.data) != string(data) {
			t.Error("the original has changed, too")
		}
	}
}

// TestRawProtobufInAnyOrder: fields may come in any order, with others of any kind in between.
func TestRawProtobufInAnyOrder(t *testing.T) {
	text := func(b []byte, num protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
	}
	number := func(b []byte, num protowire.Number) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), 300)
	}
	label := text(number(text(nil, 2, "v"), 3), 1, "k")
	meta := text(number(text(number(text(text(nil, 11, string(label)), 6, "5"), 7), 1, "n"), 99), 5, "u")
	data := text(number(text(nil, 2, "spec"), 4), 1, string(text(meta, 3, "ns")))
	r, err := ParseRaw(data, true)
	if err != nil {
		t.Fatal(err)
	}
	checkRaw(t, "in another order", r, metav1.ObjectMeta{
		Name: "n", Namespace: "ns", UID: "u", ResourceVersion: "5", Labels: map[string]string{"k": "v"},
	})
}

// TestRawJSON has the metadata, kind and bytes of an object; with another version, only that differs.
func TestRawJSON(t *testing.T) {
	data := `{"kind":"Widget","apiVersion":"shop/v1","metadata":{"name":"n","namespace":"ns","uid":"u",` +
		`"resourceVersion":"5","labels":{"k":"v"},"generation":9007199254740993},"spec":{"Kind":1.50}}`
	r, err := ParseRaw([]byte(data), false)
	if err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{
		Name:            "n",
		Namespace:       "ns",
		UID:             "u",
		ResourceVersion: "5",
		Labels:          map[string]string{"k": "v"},
	}
	checkRaw(t, "decoded", r, meta)
	kind := schema.GroupVersionKind{Group: "shop", Version: "v1", Kind: "Widget"}
	if kept, protobuf := r.Encoding(); protobuf || string(kept) != data || r.GetObjectKind().GroupVersionKind() != kind {
		t.Errorf("kept %s, protobuf %t, a %s", kept, protobuf, r.GetObjectKind().GroupVersionKind())
	}
	if _, ok := RawDecoder(false).Peek([]byte(data)); ok {
		t.Error("JSON was peeked at")
	}
	meta.ResourceVersion = "6"
	changed := r.WithResourceVersion("6").(*Raw)
	checkRaw(t, "with another version", changed, meta)
	const want = `{"apiVersion":"shop/v1","kind":"Widget","metadata":{"generation":9007199254740993,"labels":{"k":"v"},` +
		`"name":"n","namespace":"ns","resourceVersion":"6","uid":"u"},"spec":{"Kind":1.5}}`
	if string(changed.data) != want {
		t.Errorf("with another version: %s, want %s", changed.data, want)
	}
	copied := r.DeepCopyObject().(*Raw)
	if copied.Labels["k"] = "written"; !maps.Equal(r.Labels, map[string]string{"k": "v"}) {
		t.Error("a copy shares its labels")
	}
}

// TestRawRefusesBrokenData: what is cut off anywhere, or is no object, is an error.
func TestRawRefusesBrokenData(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Labels: map[string]string{"k": "v"}}}
	meta, err := p.ObjectMeta.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	inMeta := func(meta []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), meta)
	}
	number := protowire.AppendTag(nil, 9, protowire.VarintType)
	for name, broken := range map[string][]byte{
		"a tag": {0x80}, "a number": number, "a length": {0x0a}, "the metadata": inMeta(meta)[:10],
		"in the metadata": inMeta(append(meta, 0x80)), "in a label": inMeta([]byte{metaLabelsField<<3 | 2, 1, 0x80}),
	} {
		if r, err := ParseRaw(broken, true); err == nil {
			t.Errorf("%s is cut off: %+v", name, r)
		}
	}
	for _, broken := range []string{
		"", "{", "[]", `{"metadata":{"name":"n"}}`, `{"kind":"Widget"}`, `{"apiVersion":"v1"}`,
		`{"kind":"Widget","apiVersion":"v1","metadata":1}`,
	} {
		if r, err := ParseRaw([]byte(broken), false); err == nil {
			t.Errorf("%s is %+v", broken, r)
		}
	}
	for name, data := range map[string][]byte{"a tag": {0x80}, "a number": number, "in the metadata": inMeta(number)} {
		if out, err := setProtobufVersion(data, "6"); err == nil {
			t.Errorf("%s is cut off: %x", name, out)
		}
	}
	for _, data := range []string{"{", `{"kind":"Widget"}`, `{"metadata":[]}`} {
		if out, err := setJSONVersion([]byte(data), "6"); err == nil {
			t.Errorf("%s has a version: %s", data, out)
		}
	}
}
