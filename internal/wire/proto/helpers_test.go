package proto

import (
	"bytes"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"github.com/tidings/tidings/internal/wire"
)

// message is implemented by all generated types.
type generated interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// registered returns the types of client-go's scheme that have a protobuf encoding, in a fixed order.
func registered() []reflect.Type {
	var types []reflect.Type
	for _, t := range scheme.Scheme.AllKnownTypes() {
		p := reflect.PointerTo(t)
		if p.Implements(reflect.TypeFor[generated]()) && !slices.Contains(types, p) {
			types = append(types, p)
		}
	}
	slices.SortFunc(types, func(a, b reflect.Type) int {
		return strings.Compare(a.Elem().PkgPath()+a.String(), b.Elem().PkgPath()+b.String())
	})
	return types
}

// untyped is a decoder for a type known only at run time, with the last version of each object, as in a cache.
type untyped struct {
	*decoder
	last map[string]lastVersion // by uid
	// beside says that the decoder also gets the encoding of the last version.
	beside bool
}

type lastVersion struct {
	object  unsafe.Pointer
	encoded []byte
}

func newUntyped(typ reflect.Type, opts wire.Options) (*untyped, error) {
	d, err := newDecoder(typ, opts)
	return &untyped{decoder: d, last: map[string]lastVersion{}}, err
}

func newGenerated(typ reflect.Type) generated { return reflect.New(typ.Elem()).Interface().(generated) }

func decodeAny(d *untyped, data []byte) (generated, error) {
	var uid string
	if d.identified() {
		meta, _ := peek(data)
		uid = string(meta.UID)
	}
	d.recheck()
	last := d.last[uid]
	p, err := d.decode(data, last.object, last.encoded)
	if err != nil {
		return nil, err
	}
	if last = (lastVersion{object: p}); d.beside {
		last.encoded = bytes.Clone(data)
	}
	if uid != "" {
		d.last[uid] = last
	}
	return reflect.NewAt(d.typ, p).Interface().(generated), nil
}

// oracle decodes with the generated code, turning its panics on malformed quantities into errors.
func oracle(typ reflect.Type, data []byte) (obj generated, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	obj = newGenerated(typ)
	return obj, obj.Unmarshal(bytes.Clone(data))
}

// sameVerdict decodes data with both decoders and returns how they differ.
func sameVerdict(d *untyped, typ reflect.Type, data []byte) error {
	got, err := decodeAny(d, data)
	if err != nil && strings.Contains(err.Error(), errExponent.Error()) {
		return nil // the generated code would take forever
	}
	want, wantErr := oracle(typ, data)
	if (err != nil) != (wantErr != nil) {
		return fmt.Errorf("%s: got error %v, want %v\n%x", typ, err, wantErr, data)
	}
	if err != nil {
		return nil
	}
	return same(got, want)
}

func same(got, want generated) error {
	if !apiequality.Semantic.DeepEqualWithNilDifferentFromEmpty(got, want) {
		return fmt.Errorf("%T: values differ:\ngot  %+v\nwant %+v", got, got, want)
	}
	a, errA := got.Marshal()
	b, errB := want.Marshal()
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		n := 0
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		from := max(0, n-40)
		return fmt.Errorf("%T: encodings differ at %d: %v %v\ngot  %q\nwant %q", got, n, errA, errB, a[from:min(len(a), n+40)], b[from:min(len(b), n+40)])
	}
	return nil
}

// newFiller returns a filler for objects of any registered type.
func newFiller(seed int64) *randfill.Filler {
	own := func(serializer.CodecFactory) []any {
		return []any{
			func(e *runtime.RawExtension, c randfill.Continue) { e.Raw = []byte(fmt.Sprintf(`{"n":%d}`, c.Intn(5))) },
			func(q *resource.Quantity, c randfill.Continue) {
				*q = resource.MustParse([]string{"1", "100m", "2Gi", "1e3", "12345678901234567890", "0.5", "3n"}[c.Intn(7)])
			},
			func(f *metav1.FieldsV1, c randfill.Continue) { f.SetRawString(fmt.Sprintf(`{"f:n%d":{}}`, c.Intn(5))) },
			func(s *string, c randfill.Continue) {
				if c.Intn(3) == 0 {
					*s = c.String(0)
				} else {
					*s = []string{"", "a", "true", "Ready", "a longer string that repeats here and there"}[c.Intn(5)]
				}
			},
		}
	}
	funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, own)
	return fuzzer.FuzzerFor(funcs, rand.NewSource(seed), serializer.NewCodecFactory(scheme.Scheme)).NilChance(0.3).NumElements(0, 3)
}

// encodings returns random encoded objects of typ, some of them twice.
func encodings(t testing.TB, f *randfill.Filler, typ reflect.Type, n int) [][]byte {
	t.Helper()
	var out [][]byte
	for range n {
		obj := newGenerated(typ)
		f.Fill(obj)
		data, err := obj.Marshal()
		if err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		out = append(out, data)
	}
	return out
}

// podCache is a decoder with the last version of each pod.
type podCache struct {
	*Decoder[*corev1.Pod]
	last map[types.UID]*corev1.Pod
}

func newPodDecoder(t testing.TB) *podCache { return newPodDecoderWith(t, wire.Options{}) }

func newPodDecoderWith(t testing.TB, opts wire.Options) *podCache {
	t.Helper()
	d, err := New[*corev1.Pod](opts)
	if err != nil {
		t.Fatal(err)
	}
	return &podCache{d, map[types.UID]*corev1.Pod{}}
}

// Decode decodes the next version of a pod.
func (c *podCache) Decode(data []byte) (*corev1.Pod, error) {
	meta, _ := c.Peek(data)
	c.Recheck()
	pod, err := c.Decoder.Decode(data, c.last[types.UID(meta.UID)])
	if err == nil {
		c.last[pod.UID] = pod
	}
	return pod, err
}

func decodePod(t testing.TB, c *podCache, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	data, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
