package proto

import (
	"bytes"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"github.com/tidings/tidings/internal/wire"
)

// message is what all generated types have.
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

// newUntyped is New for a type that is known only at run time.
func newUntyped(typ reflect.Type, opts wire.Options) (*decoder, error) {
	return newDecoder(typ, opts)
}

func newGenerated(typ reflect.Type) generated { return reflect.New(typ.Elem()).Interface().(generated) }

func decodeAny(d *decoder, data []byte) (generated, error) {
	p, err := d.decode(data)
	if err != nil {
		return nil, err
	}
	return reflect.NewAt(d.typ, p).Interface().(generated), nil
}

// oracle decodes with the generated code, whose panics on broken quantities are errors.
func oracle(typ reflect.Type, data []byte) (obj generated, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	obj = newGenerated(typ)
	return obj, obj.Unmarshal(bytes.Clone(data))
}

// sameVerdict decodes data with both decoders and says how they differ.
func sameVerdict(d *decoder, typ reflect.Type, data []byte) error {
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

// encodings returns random encoded objects of typ; some of them are encoded twice.
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
