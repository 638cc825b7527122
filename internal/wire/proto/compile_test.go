package proto

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/wire"
)

// tree is a recursive message; no Kubernetes type that the decoder compiles is one.
type tree struct {
	Name     string  `json:"name" protobuf:"bytes,1,opt,name=name"`
	Children []tree  `json:"children" protobuf:"bytes,2,rep,name=children"`
	Other    *tree   `json:"other" protobuf:"bytes,3,opt,name=other"`
	Values   []int64 `json:"values" protobuf:"varint,4,rep,name=values"`
}

func (t *tree) Unmarshal([]byte) error { return errors.New("not called") }

// chain encodes a tree of the given depth whose leaves have a name.
func chain(depth int) []byte {
	b := []byte{1<<3 | bytesWire, 1, 'x'}
	for i := range depth {
		num := byte(2 + i%2)
		var length []byte
		for n := len(b); ; n >>= 7 {
			if n < 0x80 {
				length = append(length, byte(n))
				break
			}
			length = append(length, byte(n)|0x80)
		}
		b = slices.Concat([]byte{num<<3 | bytesWire}, length, b)
	}
	return b
}

func TestRecursiveType(t *testing.T) {
	for _, opts := range []wire.Options{{}, {NoSharing: true}, keeping, {Trim: []string{"other.other.name"}}} {
		d, err := New[*tree](opts)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			got, err := d.Decode(chain(300), nil)
			if err != nil {
				t.Fatal(err)
			}
			depth := 0
			for ; got.Name == ""; depth++ {
				if got.Other != nil {
					got = got.Other
				} else {
					got = &got.Children[0]
				}
			}
			if depth != 300 || got.Name != "x" {
				t.Fatalf("depth %d, name %q", depth, got.Name)
			}
		}
		if n := len(d.d.compiler.sites); n > 50 {
			t.Errorf("%+v: %d sites", opts, n)
		}
		if _, err := d.Decode(chain(maxDepth+500), nil); !errors.Is(err, errDepth) {
			t.Errorf("deep nesting: got %v", err)
		}
	}
}

// family is an object that contains objects of its own type.
type family struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec              tree     `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	Children          []family `json:"children" protobuf:"bytes,3,rep,name=children"`
}

func (f *family) Unmarshal([]byte) error { return errors.New("not called") }

// TestRecursiveTypeInVersions: the spec of a version may be reused, but not that of an object inside.
func TestRecursiveTypeInVersions(t *testing.T) {
	d, err := New[*family](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	message := func(num byte, b []byte) []byte {
		return slices.Concat(protowire.AppendVarint([]byte{num<<3 | bytesWire}, uint64(len(b))), b)
	}
	object := func(spec string, children ...[]byte) []byte {
		b := append(message(1, message(metaUID, []byte("u"))), message(2, message(1, []byte(strings.Repeat(spec, minSpec))))...)
		for _, c := range children {
			b = append(b, message(3, c)...)
		}
		return b
	}
	var last *family
	for i, children := range [][][]byte{nil, {object("b")}, {object("c"), object("d")}, {object("d")}} {
		got, err := d.Decode(object("a", children...), last)
		if err != nil {
			t.Fatalf("version %d: %v", i, err)
		}
		if got.Spec.Name[0] != 'a' || len(got.Children) != len(children) {
			t.Fatalf("version %d: got %+v", i, got)
		}
		for k, c := range got.Children {
			if want := string("_bcd"[i+k]); i < 3 && c.Spec.Name != strings.Repeat(want, minSpec) {
				t.Errorf("version %d: child %d has the spec %.3s, want %s", i, k, c.Spec.Name, want)
			}
		}
		last = got
	}
	if d.Stats().Fields == nil || d.d.stats.Hits < 2 { // for the last version, the object would keep more alive than its size
		t.Errorf("the spec was taken over %d times, want 2 at least", d.d.stats.Hits)
	}
}

// TestManyRuns checks that a list in many short runs does not take quadratic time.
func TestManyRuns(t *testing.T) {
	d, err := New[*tree](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 100_000
	got, err := d.Decode(bytes.Repeat([]byte{4 << 3, 7, 2<<3 | bytesWire, 0, 1<<3 | bytesWire, 1, 'y'}, n), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Children) != n || len(got.Values) != n || got.Values[n-1] != 7 || got.Name != "y" {
		t.Errorf("%d children, %d values, name %q", len(got.Children), len(got.Values), got.Name)
	}
}
