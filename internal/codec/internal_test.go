package codec

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
)

// TestDeepContent nests content as deeply as permitted, and one level deeper.
func TestDeepContent(t *testing.T) {
	for name, wrap := range map[string]func(inner any) any{
		"maps":  func(inner any) any { return map[string]any{"a": inner} },
		"lists": func(inner any) any { return []any{inner} },
	} {
		var content any = "deep"
		for range maxJSONDepth {
			content = wrap(content)
		}
		if _, err := appendJSON(nil, content, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := appendJSON(nil, wrap(content), 0); !errors.Is(err, errTooDeep) {
			t.Errorf("%s that are deeper: %v", name, err)
		}
	}
}

// changing is a message whose encoding has another size than it reports.
type changing struct{ size, written int }

func (c changing) Size() int                                     { return c.size }
func (c changing) MarshalToSizedBuffer(data []byte) (int, error) { return c.written, nil }
func (c changing) Unmarshal([]byte) error                        { return nil }

func TestMessageThatChanges(t *testing.T) {
	if data, err := appendMessage([]byte("ab"), changing{3, 3}); err != nil || len(data) != 5 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
	for _, written := range []int{2, 0} {
		if _, err := appendMessage(nil, changing{3, written}); err == nil {
			t.Errorf("%d bytes of 3 are no error", written)
		}
	}
}

// TestKeepersOfMaps has maps with what protobuf loses: empty maps, nil elements, and the contents of elements.
func TestKeepersOfMaps(t *testing.T) {
	type inner struct {
		Kept []string `protobuf:"bytes,1,rep,name=kept"`
		Lost string
	}
	type outer struct {
		Structs map[string]inner    `protobuf:"bytes,1,rep,name=structs"`
		Lists   map[string][]string `protobuf:"bytes,2,rep,name=lists"`
		Texts   map[string]string   `protobuf:"bytes,3,rep,name=texts"`
	}
	keeps := losslessChecks{}.forType(reflect.TypeFor[outer]())
	for name, tt := range map[string]struct {
		o    outer
		want bool
	}{
		"nothing":                 {outer{}, true},
		"texts":                   {outer{Texts: map[string]string{"a": ""}}, true},
		"an empty map":            {outer{Texts: map[string]string{}}, false},
		"an empty map of structs": {outer{Structs: map[string]inner{}}, false},
		"structs":                 {outer{Structs: map[string]inner{"a": {}, "b": {Kept: []string{"x"}}}}, true},
		"a struct with a field":   {outer{Structs: map[string]inner{"a": {Lost: "x"}}}, false},
		"a struct with a list":    {outer{Structs: map[string]inner{"a": {Kept: []string{}}}}, false},
		"lists":                   {outer{Lists: map[string][]string{"a": {"b"}}}, true},
		"a nil list":              {outer{Lists: map[string][]string{"a": nil}}, false},
	} {
		if got := keeps(reflect.ValueOf(&tt.o).Elem()); got != tt.want {
			t.Errorf("%s: kept is %t", name, got)
		}
	}
}

func TestDecoderOfBadTrims(t *testing.T) {
	for _, trim := range []object.Trim{{""}, {"metadata.name."}, {"."}} {
		d, err := JSONDecoder[*unstructured.Unstructured](unstructuredType, wire.Options{Trim: trim})
		if err == nil || d != nil {
			t.Errorf("trim %q: %v, %v", trim, d, err)
		}
	}
}

// TestSameOfUnexportedFields compares types that Kubernetes' comparison cannot.
func TestSameOfUnexportedFields(t *testing.T) {
	type hiding struct{ hidden int }
	if !equalWithNil(&hiding{1}, &hiding{1}) || equalWithNil(&hiding{1}, &hiding{2}) {
		t.Error("unexported fields are not compared")
	}
}

func TestNumbersThatJSONLacks(t *testing.T) {
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if data, err := appendFloat(nil, f); !errors.Is(err, ErrLossy) {
			t.Errorf("%v: %s, %v", f, data, err)
		}
	}
	for f, want := range map[float64]string{0: "0.0", 1: "1.0", -2.5: "-2.5", 1e30: "1e+30"} {
		if data, err := appendFloat([]byte("x"), f); err != nil || string(data) != "x"+want {
			t.Errorf("%v: %s, %v", f, data, err)
		}
	}
}

// TestMemoryOfSingleDecoders is an eighth of the codec's, within bounds.
func TestMemoryOfSingleDecoders(t *testing.T) {
	for maxShared, want := range map[int]int{0: 256 << 10, 1: 32 << 10, 1 << 20: 128 << 10, 16 << 20: 256 << 10} {
		if got := maxSharedSingle(maxShared); got != want {
			t.Errorf("of %d bytes, %d, want %d", maxShared, got, want)
		}
	}
}

// TestDecodersOfSingleObjects: two at a time have a decoder each, and what they remember counts.
func TestDecodersOfSingleObjects(t *testing.T) {
	c, err := New[*corev1.Pod](0)
	if err != nil {
		t.Fatal(err)
	}
	first := c.idle
	a, b := c.getDecoder(), c.getDecoder()
	if a != first || a == b || b == nil {
		t.Error("two decode with the same decoder, or the one at hand is not used")
	}
	c.putDecoder(a)
	unused := c.SharedBytes()
	for _, p := range wiretest.Pods(100, 1) {
		data, err := c.Append(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.DecodeAlone(data); err != nil {
			t.Fatal(err)
		}
	}
	if alone := c.idle.Stats(); c.SharedBytes() < unused+int64(alone.TableBytes+alone.PlanBytes)/2 ||
		alone.PlanBytes == 0 {
		t.Errorf("%d bytes before, %d after, of which a decoder has %+v", unused, c.SharedBytes(), alone)
	}
}

// TestJSONHasNoPatches: who asks for them gets an error.
func TestJSONHasNoPatches(t *testing.T) {
	c, err := New[*wiretest.Widget](0)
	if err != nil {
		t.Fatal(err)
	}
	w := wiretest.Widget{}
	data, err := c.Append(nil, &w)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Diff(nil, data, data, 100); ok {
		t.Error("there is a patch")
	}
	_, err1 := c.DecodeBase(data)
	_, err2 := c.DecodePatch(&w, data)
	_, err3 := c.DecodeNextPatch(&w, data, &w, data)
	for _, err := range []error{err1, err2, err3} {
		if err == nil || !strings.Contains(err.Error(), "does not support patches") {
			t.Errorf("got %v", err)
		}
	}
}

// failing is a type that cannot be encoded.
type failing struct{ wiretest.Widget }

var errFailing = errors.New("no JSON")

func (*failing) MarshalJSON() ([]byte, error) { return nil, errFailing }

func TestErrorsOfTheTypeAreTold(t *testing.T) {
	c, err := New[*failing](0)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := c.Append([]byte("before"), &failing{}); !errors.Is(err, errFailing) || string(out) != "before" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestRecursiveTypes are checked at every depth.
func TestRecursiveTypes(t *testing.T) {
	type node struct {
		Next *node    `protobuf:"bytes,1,opt,name=next"`
		List []string `protobuf:"bytes,2,rep,name=list"`
	}
	type plain struct {
		Next *plain `protobuf:"bytes,1,opt,name=next"`
	}
	keeps := losslessChecks{}.forType(reflect.TypeFor[node]())
	for want, o := range map[bool]*node{
		true: {Next: &node{Next: &node{List: []string{"x"}}}}, false: {Next: &node{Next: &node{List: []string{}}}},
	} {
		if got := keeps(reflect.ValueOf(o).Elem()); got != want {
			t.Errorf("kept is %t, want %t", got, want)
		}
	}
	if keeps := (losslessChecks{}).forType(reflect.TypeFor[plain]()); keeps != nil &&
		!keeps(reflect.ValueOf(&plain{&plain{}}).Elem()) {
		t.Error("what loses nothing is not kept")
	}
}
