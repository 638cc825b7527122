package codec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
)

func newCodec[T object.Object](t testing.TB) *codec.Objects[T] {
	t.Helper()
	c, err := codec.New[T](0)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// equalWithNil is equality as guaranteed by Codec.
func equalWithNil(a, b any) bool {
	return apiequality.Semantic.DeepEqualWithNilDifferentFromEmpty(a, b)
}

// checkCodec encodes obj and decodes it both ways. It reports whether that was possible.
func checkCodec[T object.Object](t testing.TB, c *codec.Objects[T], obj T) bool {
	t.Helper()
	data, err := c.Append([]byte("before"), obj)
	if errors.Is(err, codec.ErrLossy) {
		if string(data) != "before" {
			t.Errorf("an error leaves %q", data)
		}
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	data = data[len("before"):]
	for name, decode := range map[string]func() (T, error){
		"shared": func() (T, error) { return c.Decode(data, *new(T)) },
		"newer":  func() (T, error) { return c.Decode(data, obj) },
		"alone":  func() (T, error) { return c.DecodeAlone(data) },
	} {
		back, err := decode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !equalWithNil(obj, back) {
			t.Errorf("%s: decoded another object:\n%+v\ninstead of\n%+v", name, back, obj)
		}
	}
	return true
}

// TestCodecOfMessages encodes objects with random contents. Either they are restored exactly, or
// the generated code cannot restore them.
func TestCodecOfMessages(t *testing.T) {
	testseed.Each(t, 3, func(t *testing.T, seed uint64) {
		r := &randomObjects{rng: rand.New(rand.NewPCG(seed, 1))}
		checkMessages[*corev1.Pod](t, r)
		checkMessages[*corev1.Secret](t, r)
		checkMessages[*corev1.Node](t, r)
		checkMessages[*corev1.Event](t, r)
		checkMessages[*coordinationv1.Lease](t, r)
		checkMessages[*appsv1.StatefulSet](t, r)
		checkMessages[*appsv1.ControllerRevision](t, r)
		checkMessages[*certificatesv1.CertificateSigningRequest](t, r)
		checkMessages[*metav1.PartialObjectMetadata](t, r)
	})
}

func checkMessages[T object.Object](t *testing.T, r *randomObjects) {
	t.Helper()
	c, kept := newCodec[T](t), 0
	if c.Encoding() != "protobuf" {
		t.Errorf("the encoding is %s", c.Encoding())
	}
	const n = 300
	for i := range n {
		r.regular = i%2 == 0
		obj := reflect.New(reflect.TypeFor[T]().Elem())
		r.fill(obj.Elem(), 0)
		if checkCodec(t, c, obj.Interface().(T)) {
			kept++
		} else if message := obj.Interface().(message); comesBack(t, message) {
			t.Errorf("not encoded, but nothing would be lost: %+v", message)
		}
	}
	if kept < n/3 {
		t.Errorf("%T: only %d of %d were encoded", *new(T), kept, n)
	}
}

type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// comesBack reports whether the generated code restores what it encodes. It ignores the kind.
func comesBack(t *testing.T, obj message) bool {
	t.Helper()
	data, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(message)
	if err := back.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	*back.(object.Object).GetObjectKind().(*metav1.TypeMeta) = *obj.(object.Object).GetObjectKind().(*metav1.TypeMeta)
	return equalWithNil(obj, back)
}

// randomObjects fills objects. Regular ones only have contents that protobuf can represent.
type randomObjects struct {
	rng     *rand.Rand
	regular bool
}

func (r *randomObjects) fill(v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(r.time(time.Second))))
		return
	case metav1.MicroTime:
		v.Set(reflect.ValueOf(metav1.NewMicroTime(r.time(time.Microsecond))))
		return
	case metav1.TypeMeta:
		if r.regular && depth > 1 { // that of an object inside of the object
			return
		}
	case resource.Quantity:
		v.Set(reflect.ValueOf(resource.MustParse(fmt.Sprint(r.rng.IntN(5000), []string{"", "m", "Ki", "G"}[r.rng.IntN(4)]))))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			r.fill(v.Field(i), depth+1)
		}
	case reflect.Pointer:
		if r.rng.IntN(depth+1) < 2 {
			v.Set(reflect.New(v.Type().Elem()))
			r.fill(v.Elem(), depth+1)
		}
	case reflect.Slice, reflect.Map:
		r.fillMany(v, depth)
	case reflect.String:
		v.SetString([]string{"", "a", "some text"}[r.rng.IntN(3)])
	case reflect.Bool:
		v.SetBool(r.rng.IntN(2) == 0)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.rng.IntN(1000)))
	case reflect.Uint8:
		v.SetUint(uint64(r.rng.IntN(256)))
	}
}

func (r *randomObjects) fillMany(v reflect.Value, depth int) {
	n := r.rng.IntN(3) - depth/3
	isBytes := v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8
	if n <= 0 && !(r.rng.IntN(200) == 0 && !r.regular) && !isBytes {
		return
	}
	if v.Kind() == reflect.Map {
		v.Set(reflect.MakeMap(v.Type()))
		for i := range max(n, 0) {
			e := reflect.New(v.Type().Elem()).Elem()
			r.fill(e, depth+1)
			if r.regular && e.Kind() == reflect.Slice && e.Len() == 0 {
				continue
			}
			v.SetMapIndex(reflect.ValueOf(fmt.Sprint("k", i)).Convert(v.Type().Key()), e)
		}
		if r.regular && v.Len() == 0 {
			v.SetZero()
		}
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), max(n, 0), max(n, 0)))
	for i := range v.Len() {
		r.fill(v.Index(i), depth+1)
	}
}

func (r *randomObjects) time(unit time.Duration) time.Time {
	if r.rng.IntN(4) == 0 {
		return time.Time{}
	}
	t := time.Unix(r.rng.Int64N(1<<33), r.rng.Int64N(1e9))
	if r.regular || r.rng.IntN(50) > 0 {
		t = t.Truncate(unit)
	}
	return t
}

func TestCodecOfPods(t *testing.T) {
	c := newCodec[*corev1.Pod](t)
	for _, p := range wiretest.Pods(200, 1) {
		if !checkCodec(t, c, p) {
			t.Fatalf("%s cannot be encoded", p.Name)
		}
	}
}

func TestCodecOfUnstructured(t *testing.T) {
	c := newCodec[*unstructured.Unstructured](t)
	for _, data := range wiretest.CustomResources(100, 1) {
		var u unstructured.Unstructured
		if err := u.UnmarshalJSON(data); err != nil {
			t.Fatal(err)
		}
		if !checkCodec(t, c, &u) {
			t.Fatalf("%s cannot be encoded", u.GetName())
		}
	}
}

// TestCodecOfQuantities encodes quantities, some of which no text can tell: such ones result from
// calculations, for example in a transform.
func TestCodecOfQuantities(t *testing.T) {
	testseed.Each(t, 3, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 4))
		c, kept := newCodec[*corev1.Node](t), 0
		const n = 2000
		for range n {
			q := resource.NewScaledQuantity(rng.Int64()>>rng.IntN(63)*(1-2*rng.Int64N(2)), resource.Scale(rng.IntN(36)-14))
			q.Format = []resource.Format{resource.DecimalSI, resource.BinarySI, resource.DecimalExponent, ""}[rng.IntN(4)]
			if rng.IntN(3) == 0 {
				q.Add(*resource.NewScaledQuantity(rng.Int64()>>rng.IntN(63), resource.Scale(rng.IntN(36)-14)))
			}
			node := &corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": *q}}}
			if checkCodec(t, c, node) {
				kept++
			} else if comesBack(t, node) && q.CmpInt64(math.MaxInt64) <= 0 && q.CmpInt64(math.MinInt64) >= 0 {
				t.Errorf("%v is not encoded, but nothing would be lost", q)
			}
		}
		if kept < n/4 {
			t.Errorf("only %d of %d were encoded", kept, n)
		}
	})
}

func TestCodecOfUnusualContent(t *testing.T) {
	c := newCodec[*unstructured.Unstructured](t)
	self := map[string]any{}
	self["self"] = self
	for name, test := range map[string]struct {
		value any
		kept  bool
	}{
		"whole float": {1.0, true}, "large float": {1e300, true}, "small float": {-1e-7, true}, "negative zero": {math.Copysign(0, -1), true},
		"integer": {int64(math.MinInt64), true}, "null": {nil, true}, "empty": {map[string]any{"a": []any{}, "b": map[string]any{}}, true},
		"text": {"<\u2028\"\\\x00\x7f>", true},
		"int":  {3, false}, "nil map": {map[string]any(nil), false}, "nil list": {[]any(nil), false}, "strings": {[]string{"a"}, false},
		"NaN": {math.NaN(), false}, "infinity": {math.Inf(1), false}, "no UTF-8": {"\xff", false}, "no name": {map[string]any{"\xff": "a"}, false},
	} {
		obj := widget("a", "b")
		obj.Object["spec"] = test.value
		if kept := checkCodec(t, c, obj); kept != test.kept {
			t.Errorf("%s: kept is %t", name, kept)
		}
	}
	if _, err := c.Append(nil, &unstructured.Unstructured{Object: self}); err == nil {
		t.Error("content that contains itself has an encoding")
	}
}

func TestCodecOfStructs(t *testing.T) {
	c := newCodec[*Widget](t)
	w := &Widget{TypeMeta: metav1.TypeMeta{Kind: "Widget"}, ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"b": "c"}}}
	w.Spec.Size, w.Spec.Parts = 3, []string{"x"}
	if !checkCodec(t, c, w) {
		t.Error("it cannot be encoded")
	}
	w.Spec.Parts = []string{}
	if !checkCodec(t, c, w) {
		t.Error("an empty list that is written cannot be encoded")
	}
	w.Labels = map[string]string{}
	if checkCodec(t, c, w) {
		t.Error("an empty map that is left out was encoded")
	}
}

// TestCodecNeedsAKind encodes objects that cannot be decoded. A transform may remove the kind, and
// not every source sets it.
func TestCodecNeedsAKind(t *testing.T) {
	c := newCodec[*unstructured.Unstructured](t)
	for _, content := range []map[string]any{nil, {}, {"apiVersion": "v1"}, {"kind": int64(3)}, {"apiVersion": "a/b/c", "kind": "Widget"}} {
		if checkCodec(t, c, &unstructured.Unstructured{Object: content}) {
			t.Errorf("%v was encoded", content)
		}
	}
	for _, content := range []map[string]any{{"kind": "Widget"}, {"apiVersion": int64(3), "kind": "Widget"}} {
		if !checkCodec(t, c, &unstructured.Unstructured{Object: content}) {
			t.Errorf("%v cannot be encoded", content)
		}
	}
}

// textual is a type that is text in JSON; sparse can hold much that takes next to no JSON.
type (
	textual struct{ Widget }
	sparse  struct {
		Widget
		Parts []sparsePart `json:"parts"`
	}
	sparsePart struct {
		Meta metav1.ObjectMeta `json:"meta,omitzero"`
	}
)

func (o *textual) MarshalJSON() ([]byte, error) { return json.Marshal(o.Name) }

func (o *textual) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &o.Name) }

// TestCodecEncodesWhatItDecodes encodes objects that have JSON, but that a decoder refuses.
func TestCodecEncodesWhatItDecodes(t *testing.T) {
	text := &textual{}
	text.Name = "a"
	if _, err := newCodec[*textual](t).Append(nil, text); err == nil {
		t.Error("text instead of an object was encoded")
	}
	c := newCodec[*sparse](t)
	if !checkCodec(t, c, &sparse{Parts: make([]sparsePart, 100)}) {
		t.Error("few empty parts cannot be encoded")
	}
	if _, err := c.Append(nil, &sparse{Parts: make([]sparsePart, 100_000)}); err == nil {
		t.Error("many empty parts were encoded")
	}
}

// TestCodecKeepsTheKind encodes objects as returned by fake clients.
func TestCodecKeepsTheKind(t *testing.T) {
	p := pod("a", "b")
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	if !checkCodec(t, newCodec[*corev1.Pod](t), p) {
		t.Error("it cannot be encoded")
	}
}

// TestCodecKeepsKindsInside encodes a kind that an API server writes in JSON but not in protobuf:
// that of the claims of a StatefulSet.
func TestCodecKeepsKindsInside(t *testing.T) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}}
	c := newCodec[*appsv1.StatefulSet](t)
	if !checkCodec(t, c, set) {
		t.Error("without a kind it cannot be encoded")
	}
	set.Spec.VolumeClaimTemplates[0].TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
	if checkCodec(t, c, set) {
		t.Error("the kind of a claim was encoded")
	}
}

// panicking is a type whose methods panic.
type panicking struct{ Widget }

func (*panicking) MarshalJSON() ([]byte, error) { panic("no") }

func TestCodecSurvivesPanics(t *testing.T) {
	if _, err := newCodec[*panicking](t).Append(nil, &panicking{}); err == nil || !strings.Contains(err.Error(), "panic: no") {
		t.Errorf("got %v", err)
	}
	if _, err := newCodec[*corev1.Pod](t).Append(nil, nil); err == nil {
		t.Error("a nil object has an encoding")
	}
}

func TestCodecRefusesBrokenData(t *testing.T) {
	c := newCodec[*corev1.Pod](t)
	data, err := c.Append(nil, wiretest.Pods(1, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range [][]byte{nil, {200}, {0}, {0, 200}, data[:len(data)-1]} {
		if _, err := c.Decode(broken, nil); err == nil {
			t.Errorf("%d bytes have no error", len(broken))
		}
		if _, err := c.DecodeAlone(broken); err == nil {
			t.Errorf("%d bytes alone have no error", len(broken))
		}
	}
}

// TestCodecConcurrently is for the race detector.
func TestCodecConcurrently(t *testing.T) {
	c := newCodec[*corev1.Pod](t)
	pods := wiretest.Pods(50, 1)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for _, p := range pods {
				checkCodec(t, c, p)
			}
		})
	}
	readers.Wait()
}

// TestStrayWritesToSingleObjects: writes to an object that was decoded alone do not show in objects
// decoded later, except at most in those of the same batch.
func TestStrayWritesToSingleObjects(t *testing.T) {
	c := newCodec[*corev1.Pod](t)
	var encoded [][]byte
	pods := wiretest.Pods(400, 2)
	for _, p := range pods {
		data, err := c.Append(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		encoded = append(encoded, data)
	}
	const batch = 32
	for round := range 20 {
		wrong := 0
		for i, data := range encoded {
			p, err := c.DecodeAlone(data)
			if err != nil {
				t.Fatal(err)
			}
			if !equalWithNil(p, pods[i]) {
				wrong++
			}
			if i == len(encoded)/2 {
				p.Spec.Tolerations[0].Key = fmt.Sprint("written in round ", round)
				p.Spec.Containers[0].Resources.Limits["written"] = resource.MustParse("1")
			}
		}
		if wrong >= batch {
			t.Fatalf("round %d: a write shows in %d objects", round, wrong)
		}
	}
}

func TestNewCodecRefusesOtherTypes(t *testing.T) {
	if _, err := codec.New[object.Object](0); err == nil {
		t.Error("an interface has a codec")
	}
}

func BenchmarkCodec(b *testing.B) {
	c := newCodec[*corev1.Pod](b)
	pods := wiretest.Pods(2000, 1)
	var encoded [][]byte
	for _, p := range pods {
		data, err := c.Append(nil, p)
		if err != nil {
			b.Fatal(err)
		}
		encoded = append(encoded, data)
	}
	each := func(name string, run func(i int) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := run((i * 7919) % len(pods)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	var buf []byte
	each("append", func(i int) (err error) { buf, err = c.Append(buf[:0], pods[i]); return err })
	each("marshal", func(i int) (err error) { buf, err = pods[i].Marshal(); return err })
	each("decode", func(i int) error { _, err := c.Decode(encoded[i], nil); return err })
	each("decode/previous", func(i int) error { _, err := c.Decode(encoded[i], pods[i]); return err })
	each("alone", func(i int) error { _, err := c.DecodeAlone(encoded[i]); return err })
}

// TestCodecSharesAndChecks: decoded objects share equal parts, until one of these is written to.
func TestCodecSharesAndChecks(t *testing.T) {
	c := newCodec[*corev1.Pod](t)
	encode := func(i int) []byte {
		p := pod("a", fmt.Sprint("p", i))
		p.Labels = map[string]string{"app": "same"}
		data, err := c.Append(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	decode := func(i int) *corev1.Pod {
		p, err := c.Decode(encode(i), nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var last *corev1.Pod
	for i := range 200 {
		last = decode(i)
	}
	if again := decode(200); reflect.ValueOf(again.Labels).Pointer() != reflect.ValueOf(last.Labels).Pointer() {
		t.Error("equal labels are not shared")
	}
	if alone, err := c.DecodeAlone(encode(200)); err != nil || reflect.ValueOf(alone.Labels).Pointer() == reflect.ValueOf(last.Labels).Pointer() {
		t.Errorf("an object alone shares its labels, or %v", err)
	}
	last.Labels["app"] = "spoilt"
	for i := range 64 { // shared parts are checked again after some
		last = decode(i)
	}
	if last.Labels["app"] != "same" {
		t.Errorf("a stray write spreads: %v", last.Labels)
	}
}

// TestCodecEncodings names the encoding of each kind of type, which is the same for the same object.
func TestCodecEncodings(t *testing.T) {
	many := map[string]any{"kind": "Widget"}
	for i := range 30 {
		many[fmt.Sprint("name", i)] = int64(i)
	}
	untyped, typed, message := newCodec[*unstructured.Unstructured](t), newCodec[*Widget](t), newCodec[*corev1.Pod](t)
	if a, b, c := untyped.Encoding(), typed.Encoding(), message.Encoding(); a != "json" || b != "json" || c != "protobuf" {
		t.Errorf("encodings %q, %q, %q", a, b, c)
	}
	first, err := untyped.Append(nil, &unstructured.Unstructured{Object: many})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if again, err := untyped.Append(nil, &unstructured.Unstructured{Object: many}); err != nil || string(again) != string(first) {
			t.Fatalf("%s, %v, and before %s", again, err, first)
		}
	}
}

// TestCodecOfReceived makes the encoding of an object from the bytes that a source has received.
func TestCodecOfReceived(t *testing.T) {
	p := pod("a", "x")
	data, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	c := newCodec[*corev1.Pod](t)
	out := codec.AppendReceived([]byte("before"), data)
	if string(out[:6]) != "before" {
		t.Fatalf("%q", out)
	}
	if back, err := c.Decode(out[6:], nil); err != nil || !equalWithNil(back, p) {
		t.Errorf("%+v, %v", back, err)
	}
	if own, err := c.Append(nil, p); err != nil || string(own) != string(out[6:]) ||
		string(codec.Received(own)) != string(data) {
		t.Errorf("encoded as %x, %v, and received as %x", own, err, out[6:])
	}
}
