package proto

import (
	"reflect"
	"slices"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// TestUpdateTakesOverWhatIsEncodedAsBefore checks what an update shares with the previous version.
func TestUpdateTakesOverWhatIsEncodedAsBefore(t *testing.T) {
	d := newPodDecoderWith(t, wire.Options{}).Decoder
	pod := wiretest.Pods(1, 1)[0]
	before := marshalAll(t, []*corev1.Pod{pod})[0]
	a, err := d.Decode(before, nil)
	must(t, err)
	touch(pod, 1)
	pod.Labels["new"] = "label"
	after := marshalAll(t, []*corev1.Pod{pod})[0]
	b, err := d.Update(after, a, before)
	must(t, err)
	if err := same(b, pod); err != nil {
		t.Fatal(err)
	}
	if unsafe.StringData(a.Name) != unsafe.StringData(b.Name) || &a.OwnerReferences[0] != &b.OwnerReferences[0] || &a.Spec.Containers[0] != &b.Spec.Containers[0] {
		t.Error("the name, the owners or the containers were decoded again")
	}
	if reflect.ValueOf(a.Annotations).Pointer() != reflect.ValueOf(b.Annotations).Pointer() || a.Status.StartTime != b.Status.StartTime {
		t.Error("the annotations or the start were decoded again")
	}
	if reflect.ValueOf(a.Labels).Pointer() == reflect.ValueOf(b.Labels).Pointer() || &a.Status.Conditions[0] == &b.Status.Conditions[0] {
		t.Error("the labels or the conditions were taken over, though they changed")
	}
	if a.ManagedFields[1].FieldsV1 != b.ManagedFields[1].FieldsV1 || a.ManagedFields[1].Time == b.ManagedFields[1].Time {
		t.Error("of the changed entry, only the time shall be decoded again")
	}
}

// TestUpdateOfIrregularEncodings updates from and to encodings with a field in two places, whose values are merged.
func TestUpdateOfIrregularEncodings(t *testing.T) {
	typ := reflect.TypeFor[*corev1.Pod]()
	uid := messageField(5, []byte("one"))
	name := func(s string) []byte { return messageField(fieldOfName, []byte(s)) }
	meta := func(parts ...[]byte) []byte { return messageField(podMetadata, slices.Concat(append(parts, uid)...)) }
	container := func(s string) []byte { return messageField(specContainers, messageField(containerName, []byte(s))) }
	spec := func(parts ...[]byte) []byte { return messageField(podSpec, parts...) }
	node := messageField(10, []byte("node"))
	long := []byte{podSpec<<3 | 2 | 0x80, 0} // the tag of a spec in two bytes
	versions := [][]byte{
		slices.Concat(meta(name("a")), spec(container("a"))),
		slices.Concat(meta(name("a")), spec(container("a")), spec(container("b"))),
		slices.Concat(meta(name("a")), spec(container("a")), meta(name("b")), spec(container("c"))),
		slices.Concat(meta(name("a")), spec(container("a"), node, container("b"))),
		slices.Concat(meta(name("a")), spec(container("a"), container("b"), node)),
		slices.Concat(spec(container("a")), meta(name("a"))),
		slices.Concat(meta(name("a"), name("b")), spec(container("a"), node, node)),
		slices.Concat(meta(name("a")), long, spec(container("a"))[1:], spec(container("b"))),
		slices.Concat(meta(name("a")), spec(container("a")), long, spec(container("b"))[1:]),
		slices.Concat(meta(), spec()),
		meta(name("a")),
	}
	for i, before := range versions {
		for k, after := range versions {
			d, err := newUntyped(typ, wire.Options{})
			must(t, err)
			d.beside = true
			for _, data := range [][]byte{before, after, before} {
				if err := sameVerdict(d, typ, data); err != nil {
					t.Errorf("version %d after %d: %v", k, i, err)
				}
			}
		}
	}
}

// TestUpdateOfAnotherObject gives the decoder encodings that the previous version was not decoded
// from. The result may be wrong, but it is a valid object of the type.
func TestUpdateOfAnotherObject(t *testing.T) {
	d := newPodDecoderWith(t, wire.Options{}).Decoder
	pods := wiretest.PodsOfSmallOwners(40, 2, 1)
	encoded := marshalAll(t, pods)
	for i := range pods {
		for k := range pods {
			got, err := d.Update(encoded[i], pods[(i+k)%len(pods)].DeepCopy(), encoded[k])
			must(t, err)
			if _, err := got.Marshal(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// BenchmarkOpened decodes an event of a pod that was just opened, comparing either with the object
// or with its encoding.
func BenchmarkOpened(b *testing.B) {
	pods := wiretest.Pods(2000, 1)
	before := marshalAll(b, pods)
	for i, pod := range pods {
		touch(pod, i)
	}
	after := marshalAll(b, pods)
	for _, beside := range []bool{false, true} {
		name := "compared"
		if beside {
			name = "beside"
		}
		b.Run(name, func(b *testing.B) {
			single, d := newPodDecoderWith(b, wire.Options{KeepBytes: true, NoVersions: true, MaxTableBytes: 128 << 10}).Decoder, newPodDecoderWith(b, wire.Options{MaxTableBytes: 1 << 20}).Decoder
			b.ReportAllocs()
			for i := 0; b.Loop(); i = (i + 1) % len(pods) {
				old, err := single.Decode(before[i], nil)
				must(b, err)
				var encoded []byte
				if beside {
					encoded = before[i]
				}
				_, err = d.Update(after[i], old, encoded)
				must(b, err)
			}
		})
	}
}
