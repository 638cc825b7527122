package proto

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/tidings/tidings/internal/wire"
)

// tree is a message that contains itself; no type of Kubernetes' that the decoder compiles does.
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
	for _, opts := range []wire.Options{{}, {NoSharing: true}, {Trim: []string{"other.other.name"}}} {
		d, err := New[*tree](opts)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			got, err := d.Decode(chain(300))
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
		if _, err := d.Decode(chain(maxDepth + 500)); !errors.Is(err, errDepth) {
			t.Errorf("deep nesting: got %v", err)
		}
	}
}

// TestManyRuns checks that a list in many short runs takes no quadratic time.
func TestManyRuns(t *testing.T) {
	d, err := New[*tree](wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 100_000
	got, err := d.Decode(bytes.Repeat([]byte{4 << 3, 7, 2<<3 | bytesWire, 0, 1<<3 | bytesWire, 1, 'y'}, n))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Children) != n || len(got.Values) != n || got.Values[n-1] != 7 || got.Name != "y" {
		t.Errorf("%d children, %d values, name %q", len(got.Children), len(got.Values), got.Name)
	}
}
