package tidingsruntime_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/internal/testseed"
)

// generated is an object with a protobuf encoding.
type generated interface {
	runtime.Object
	metav1.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// builtinKinds returns the kinds of k8s.io/api, in a fixed order.
func builtinKinds() []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for kind, typ := range scheme.Scheme.AllKnownTypes() {
		if reflect.PointerTo(typ).Implements(reflect.TypeFor[generated]()) {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int {
		return slices.Compare([]string{a.Group, a.Version, a.Kind}, []string{b.Group, b.Version, b.Kind})
	})
	return kinds
}

// newFiller returns a filler for objects of any built-in type.
func newFiller(seed int64) *randfill.Filler {
	own := func(serializer.CodecFactory) []any {
		return []any{
			func(e *runtime.RawExtension, c randfill.Continue) { e.Raw = fmt.Appendf(nil, `{"n":%d}`, c.Intn(5)) },
			func(q *resource.Quantity, c randfill.Continue) {
				texts := []string{"1", "100m", "2Gi", "1e3", "12345678901234567890", "0.5", "3n"}
				*q = resource.MustParse(texts[c.Intn(len(texts))])
			},
			func(f *metav1.FieldsV1, c randfill.Continue) { f.SetRawString(fmt.Sprintf(`{"f:n%d":{}}`, c.Intn(5))) },
			func(v *intstr.IntOrString, c randfill.Continue) {
				*v = []intstr.IntOrString{intstr.FromInt32(0), intstr.FromInt32(80),
					intstr.FromString("http")}[c.Intn(3)]
			},
			func(s *string, c randfill.Continue) {
				*s = []string{"", "a", "true", "12", "<&>", "größer"}[c.Intn(6)]
			},
		}
	}
	funcs := fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, own)
	codecs := serializer.NewCodecFactory(scheme.Scheme)
	return fuzzer.FuzzerFor(funcs, rand.NewSource(seed), codecs).NilChance(0.3).NumElements(0, 3)
}

// stored returns a random object of a kind as the server has it: decoded from protobuf.
func stored(t *testing.T, f *randfill.Filler, kind schema.GroupVersionKind) generated {
	t.Helper()
	random, server := newOfKind(t, kind), newOfKind(t, kind)
	f.Fill(random)
	data, err := random.Marshal()
	if err == nil {
		err = server.Unmarshal(data)
	}
	if err != nil {
		t.Fatalf("%v: %v", kind, err)
	}
	server.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return server
}

func newOfKind(t *testing.T, kind schema.GroupVersionKind) generated {
	t.Helper()
	obj, err := scheme.Scheme.New(kind)
	if err != nil {
		t.Fatal(err)
	}
	return obj.(generated)
}

// sentUnstructured returns the object as a client gets it that asks for JSON and decodes it without a Go type.
func sentUnstructured(t *testing.T, server generated, kind schema.GroupVersionKind) *unstructured.Unstructured {
	t.Helper()
	sent := server.DeepCopyObject()
	sent.GetObjectKind().SetGroupVersionKind(kind)
	data, err := json.Marshal(sent)
	u := new(unstructured.Unstructured)
	if err == nil {
		err = u.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatalf("%v: %v", kind, err)
	}
	return u
}

// sentMetadata returns the object as a client gets it that asks for its metadata.
func sentMetadata(t *testing.T, server generated, kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	t.Helper()
	m := new(metav1.PartialObjectMetadata)
	data, err := meta.AsPartialObjectMetadata(server).Marshal()
	if err == nil {
		err = m.Unmarshal(data)
	}
	if err != nil {
		t.Fatalf("%v: %v", kind, err)
	}
	m.SetGroupVersionKind(kind)
	return m
}

// withRawJSON are the kinds with JSON whose bytes an unstructured object has lost.
var withRawJSON = []string{
	"ControllerRevision.apps", "DeviceClass.resource.k8s.io", "ResourceClaim.resource.k8s.io",
	"ResourceClaimTemplate.resource.k8s.io",
}

// TestViewsAreWhatTheServerSends makes each form of random objects of each built-in kind from the other forms.
func TestViewsAreWhatTheServerSends(t *testing.T) {
	kinds := builtinKinds()
	if len(kinds) < 100 {
		t.Fatalf("only %d kinds", len(kinds))
	}
	testseed.Each(t, 10, func(t *testing.T, seed uint64) {
		f := newFiller(int64(seed))
		refused := map[string]bool{}
		for _, kind := range kinds {
			server := stored(t, f, kind)
			whole, metadata := sentUnstructured(t, server, kind), sentMetadata(t, server, kind)
			before := server.DeepCopyObject()
			for name, test := range map[string]struct{ from, want apiObject }{
				"unstructured from structured": {server, whole}, "metadata from structured": {server, metadata},
				"structured from unstructured": {whole, server}, "metadata from unstructured": {whole, metadata},
			} {
				got, ok, err := tidingsruntime.Convert(test.from, kind, test.want)
				if !ok && name == "structured from unstructured" {
					refused[kind.GroupKind().String()] = true
					continue
				}
				if !ok || err != nil {
					t.Fatalf("%v: %s: possible: %t, %v", kind, name, ok, err)
				}
				equal := apiequality.Semantic.DeepEqualWithNilDifferentFromEmpty
				if name == "structured from unstructured" {
					equal = apiequality.Semantic.DeepEqual // protobuf decodes some bytes as empty that JSON leaves out
				}
				if !equal(got, test.want) {
					t.Errorf("%v: %s differs:\ngot  %s\nwant %s", kind, name, text(got), text(test.want))
				}
			}
			if !apiequality.Semantic.DeepEqualWithNilDifferentFromEmpty(server, before) {
				t.Errorf("%v: an object was changed by making others from it", kind)
			}
		}
		if got := slices.Sorted(maps.Keys(refused)); !slices.Equal(got, withRawJSON) {
			t.Errorf("refused structured objects of %v, want %v", got, withRawJSON)
		}
	})
}

// apiObject is an object in any form.
type apiObject interface {
	runtime.Object
	metav1.Object
}

func text(obj any) string {
	data, err := json.Marshal(obj)
	return fmt.Sprintf("%s %v\n%#v", data, err, obj)
}
