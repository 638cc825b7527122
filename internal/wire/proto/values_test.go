package proto

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/wire"
)

// TestEqualMapsAreOne: objects with equal maps share one.
func TestEqualMapsAreOne(t *testing.T) {
	d := newPodDecoder(t)
	labels := func(i int) uintptr {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint(i)), Labels: map[string]string{"app": "web", "tier": "front"}}}
		return reflect.ValueOf(decodePod(t, d, p).Labels).Pointer()
	}
	var last uintptr
	for i := range 50 {
		last = labels(i)
	}
	if labels(50) != last {
		t.Error("equal labels are stored twice")
	}
	if got := d.Stats().Fields["metadata.labels"]; got.Lookups != 51 || got.Hits != 49 || got.SharedBytes*51 != got.Bytes*49 {
		t.Errorf("%+v, want 49 hits of 51", got)
	}
}

// TestEqualTextsAreOne: objects with equal strings, or pointers to them, share one.
func TestEqualTextsAreOne(t *testing.T) {
	d := newPodDecoder(t)
	texts := func(i int) (plain *byte, pointer *string) {
		class := "a class that repeats"
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint(i))}, Spec: corev1.PodSpec{NodeName: "a node that repeats", RuntimeClassName: &class, Hostname: fmt.Sprint("h", i)}}
		got := decodePod(t, d, p)
		return unsafe.StringData(got.Spec.NodeName), got.Spec.RuntimeClassName
	}
	var plain *byte
	var pointer *string
	for i := range 50 {
		plain, pointer = texts(i)
	}
	if a, b := texts(50); a != plain || b != pointer {
		t.Errorf("equal texts are stored once: %t, pointers to them: %t", a == plain, b == pointer)
	}
	const size = uint64(len("a node that repeats")) // the first is only remembered, the second is stored
	if got, want := d.Stats().Fields["spec.nodeName"], (wire.FieldStats{Lookups: 51, Hits: 49, Bytes: 51 * size, SharedBytes: 49 * size}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestTextsInAllPlaces has the same text in strings, pointers to strings, lists and maps, so that
// they might be confused.
func TestTextsInAllPlaces(t *testing.T) {
	typ := reflect.TypeFor[*corev1.Pod]()
	d, err := newUntyped(typ, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		text := fmt.Sprint("a text that repeats ", i%3)
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint(i)), Labels: map[string]string{text: text}, Finalizers: []string{text, text}},
			Spec: corev1.PodSpec{
				RuntimeClassName: &text, PriorityClassName: text, NodeName: text, SchedulerName: text, NodeSelector: map[string]string{"x": text},
				SetHostnameAsFQDN: new(bool), Containers: []corev1.Container{{Name: text, Args: []string{text}}},
				Volumes: []corev1.Volume{{Name: text, VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: text, FSType: &text}}}},
			},
		}
		data, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if err := sameVerdict(d, typ, data); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOneTypeTrimmedInOneOfTwoPlaces: equal metadata of an object and of the template in it, one of
// which loses an entry.
func TestOneTypeTrimmedInOneOfTwoPlaces(t *testing.T) {
	for _, trim := range []string{"metadata.annotations[x]", "spec.template.metadata.annotations[x]"} {
		d, err := New[*appsv1.Deployment](wire.Options{Trim: []string{trim}})
		if err != nil {
			t.Fatal(err)
		}
		annotations := map[string]string{"x": "1", "y": "2"}
		for i := range 300 {
			in := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("d", i), UID: types.UID(fmt.Sprint(i)), Annotations: annotations}}
			in.Spec.Template.Annotations = annotations
			data, err := in.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			out, err := d.Decode(data, nil)
			if err != nil {
				t.Fatal(err)
			}
			own, template := out.Annotations, out.Spec.Template.Annotations
			if trim != "metadata.annotations[x]" {
				own, template = template, own
			}
			if len(own) != 1 || own["y"] != "2" || !reflect.DeepEqual(template, annotations) {
				t.Fatalf("without %s, object %d has %v and %v", trim, i, out.Annotations, out.Spec.Template.Annotations)
			}
		}
	}
}

// TestOneTypeTrimmedInTwoPlaces: equal metadata in two places, each of which loses a different entry.
func TestOneTypeTrimmedInTwoPlaces(t *testing.T) {
	d, err := New[*appsv1.Deployment](wire.Options{Trim: []string{"metadata.annotations[x]", "spec.template.metadata.annotations[y]"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		in := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("d", i), UID: types.UID(fmt.Sprint(i)), Annotations: map[string]string{"x": "1", "y": "2"}}}
		in.Spec.Template.Annotations = in.Annotations
		data, err := in.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		out, err := d.Decode(data, nil)
		if err != nil {
			t.Fatal(err)
		}
		if own, template := out.Annotations, out.Spec.Template.Annotations; len(own) != 1 || own["y"] != "2" || len(template) != 1 || template["x"] != "1" {
			t.Fatalf("object %d has %v and %v", i, own, template)
		}
	}
}

// TestBrokenQuantities: whatever the generated code rejects is rejected, wherever it is in a quantity.
func TestBrokenQuantities(t *testing.T) {
	typ := reflect.TypeFor[*corev1.Pod]()
	limits := func(value string) []byte { // spec.containers[0].resources.limits["cpu"]
		in := func(tag byte, inner string) string { return string([]byte{tag, byte(len(inner))}) + inner }
		entry := in(0x0a, "cpu") + in(0x12, value)
		return []byte(in(0x0a, in(0x0a, "p")+in(0x2a, "u")) + in(0x12, in(0x12, in(0x0a, "c")+in(0x42, in(0x0a, entry)))))
	}
	for value, broken := range map[string]bool{
		"\x0a\x011": false, "": false, "\x12\x01x\x0a\x011": false, "\x0a\x011\x0a\x012": false,
		"\x0a\x051": true, "\x0a": true, "\x80": true, "\x12\x05x": true, "\x08\x01": true, "\x0a\x01x": true, "\x0a\x00": true,
	} {
		for _, times := range []int{1, 5} {
			d, err := newUntyped(typ, wire.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for range times {
				if err := sameVerdict(d, typ, limits(value)); err != nil {
					t.Errorf("%q: %v", value, err)
				}
			}
			if _, err := decodeAny(d, limits(value)); (err != nil) != broken {
				t.Errorf("%q: %v", value, err)
			}
		}
	}
}

// TestLargeQuantitiesChange: large quantities, which are compared by value, change to others.
func TestLargeQuantitiesChange(t *testing.T) {
	d := newPodDecoder(t)
	for _, amount := range []string{"1e30", "1e29", "1e31", "1e31", "12345678901234567890123", "12345678901234567890122", "12345678901234567890123"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
		list := corev1.ResourceList{"example.com/widgets": resource.MustParse(amount)}
		p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: list, Requests: list}}}
		got := decodePod(t, d, p).Spec.Containers[0].Resources.Limits["example.com/widgets"]
		if want := resource.MustParse(amount); got.Cmp(want) != 0 {
			t.Errorf("got %v, want %v", &got, &want)
		}
	}
}

// TestMatchNumbers compares runs of numbers that look like their own tags.
func TestMatchNumbers(t *testing.T) {
	f := &field{fieldForm: fieldForm{kind: int64Kind, size: 8}}
	for _, tt := range []struct {
		held []int64
		data string
		want int
	}{
		{[]int64{5, 32}, "\x20\x05\x20\x20", 4},
		{[]int64{5, 32}, "\x20\x05\x20\x28", noMatch},
		{[]int64{5}, "\x20\x05\x28\x01", 2},
		{[]int64{5}, "\x20\x05\x20\x01", noMatch},
		{[]int64{5, 6}, "\x20\x05", noMatch},
		{[]int64{5, 6, 7}, "\x20\x05\x20\x06\x20\x07", 6},
		{[]int64{5, 6, 7}, "\x20\x05\x20\x07\x20\x07", noMatch},
		{[]int64{}, "\x20\x05", noMatch},
	} {
		slice := (*header)(unsafe.Pointer(&tt.held))
		if got := matchNumbers(f, slice, []byte(tt.data), 0, 1, varintWire); got != tt.want {
			t.Errorf("%v and %q: %d, want %d", tt.held, tt.data, got, tt.want)
		}
	}
}

// TestHitsAreLookups: every hit counts as a lookup.
func TestHitsAreLookups(t *testing.T) {
	d := newPodDecoder(t)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}
	for i := range 10 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("container ", i), Image: fmt.Sprint("image ", i)})
	}
	for range 5 {
		before := d.Stats()
		decodePod(t, d, p)
		after := d.Stats()
		if hits, lookups := after.Hits-before.Hits, after.Lookups-before.Lookups; hits > lookups {
			t.Errorf("%d of %d were found", hits, lookups)
		}
	}
	if d.Stats().Hits == 0 {
		t.Error("nothing was found")
	}
}

// lastTwo decodes consecutive versions of one object, each with the previous one, and returns the last two.
func lastTwo[T any](t *testing.T, versions ...[]byte) (before, last T) {
	t.Helper()
	d, err := New[T](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range versions {
		before = last
		if last, err = d.Decode(data, before); err != nil {
			t.Fatal(err)
		}
	}
	return before, last
}

// odd is an object with a part that only its own method can decode.
type odd struct {
	metav1.ObjectMeta `protobuf:"bytes,1,opt,name=metadata"`
	Part              unfit `protobuf:"bytes,2,opt,name=part"`
}

func (o *odd) Unmarshal([]byte) error { return fmt.Errorf("not called") }

// TestPartsOfOwnMethods: a part decoded by its own method is never reused.
func TestPartsOfOwnMethods(t *testing.T) {
	metadata := "\x0a\x06\x0a\x01p\x2a\x01u"
	for range 20 { // some versions, chosen at random, reuse nothing
		_, last := lastTwo[*odd](t, []byte(metadata+"\x12\x01a"), []byte(metadata+"\x12\x01b"))
		if last.Name != "p" || last.Part.Name != "by its method, b" {
			t.Fatalf("got %+v", last)
		}
	}
	if _, empty := lastTwo[*odd](t, []byte(metadata+"\x12\x00")); empty.Part.Name != "by its method, " {
		t.Errorf("of no bytes: %+v", empty)
	}
	if _, none := lastTwo[*odd](t, []byte(metadata)); none.Part.Name != "" {
		t.Errorf("without any: %+v", none)
	}
}

// TestQuantitiesAreTakenOver together with the map that they are in.
func TestQuantitiesAreTakenOver(t *testing.T) {
	encode := func(label string) []byte {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Labels: map[string]string{"a": label}}}
		p.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("100m")}
		data, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	taken := 0
	for range 50 { // some versions, chosen at random, reuse nothing
		before, last := lastTwo[*corev1.Pod](t, encode("1"), encode("2"))
		if reflect.ValueOf(before.Spec.Overhead).Pointer() == reflect.ValueOf(last.Spec.Overhead).Pointer() {
			taken++
		}
	}
	if taken < 10 {
		t.Errorf("of 50 maps %d were taken over", taken)
	}
}

// TestMicroTimeOfWholeSeconds has no fraction.
func TestMicroTimeOfWholeSeconds(t *testing.T) {
	want := metav1.NewMicroTime(time.Unix(1_700_000_000, 0))
	data, err := (&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: &want}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, lease := lastTwo[*coordinationv1.Lease](t, data); !lease.Spec.RenewTime.Equal(&want) {
		t.Errorf("got %v", lease.Spec.RenewTime)
	}
}

// TestTrimOfWhatIsNotEncoded is rejected: it would do nothing.
func TestTrimOfWhatIsNotEncoded(t *testing.T) {
	for _, path := range []string{"kind", "apiVersion", "metadata.creationTimestamp.time", "spec.overhead.format", "spec.nodeName.x"} {
		if _, err := New[*corev1.Pod](wire.Options{Trim: []string{path}}); err == nil {
			t.Errorf("%s is accepted", path)
		}
	}
	for path, want := range map[string]string{"odd": `did you mean "name"`, "od": `did you mean "name"`} {
		if _, err := New[*partly](wire.Options{Trim: []string{path}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestFieldsLongerThanTheirList: a field that a list skips must end within the list, even if more data follows.
func TestFieldsLongerThanTheirList(t *testing.T) {
	behind := messageField(7, make([]byte, 200))
	for _, content := range []string{"\x4a\x32\x48\x01", "\x49\x48\x01\x48\x01", "\x4d\x48\x01", "\x48", "\x4a", "\x4b\x48\x01"} {
		data := slices.Concat([]byte("k8s\x00"), messageField(1, messageField(1, []byte("v1")), messageField(2, []byte("PodList"))),
			messageField(2, []byte(content)), behind)
		r := NewListReader(bufio.NewReader(bytes.NewReader(data)), 0)
		if item, err := r.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %q, %v", content, item, err)
		}
	}
}

// TestLargeMaps of all kinds, with more entries than their initial size.
func TestLargeMaps(t *testing.T) {
	var objects []generated
	for _, n := range []int{8, 9, 100, maxHint, maxHint + 1, 3000} {
		pod, secret := &corev1.Pod{}, &corev1.Secret{Data: map[string][]byte{}}
		pod.Labels, pod.Spec.Overhead = map[string]string{}, corev1.ResourceList{}
		request := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Extra: map[string]certificatesv1.ExtraValue{}}}
		for i := range n {
			key := fmt.Sprint("key ", i)
			pod.Labels[key], pod.Spec.Overhead[corev1.ResourceName(key)] = "value "+key, *resource.NewQuantity(int64(i), resource.DecimalSI)
			secret.Data[key], request.Spec.Extra[key] = []byte(key), certificatesv1.ExtraValue{key, "more"}
		}
		objects = append(objects, pod, secret, request)
	}
	for _, o := range objects {
		typ := reflect.TypeOf(o)
		data, err := o.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range fuzzDecoders(t, typ) {
			for range 2 {
				if err := sameVerdict(d, typ, data); err != nil {
					t.Fatalf("%.500v", err)
				}
			}
		}
	}
}
