package proto

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"unsafe"

	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire"
)

// TestWithoutPlan: whatever comes first, a decoder that begins without a plan gives what one with a plan gives, errors
// included, and has one as soon as enough objects have come, or one that needs it.
func TestWithoutPlan(t *testing.T) {
	types := registered()
	testseed.Each(t, 200, func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		typ := types[r.IntN(len(types))]
		few := 1 + r.IntN(6)
		early, err := newOf[unsafe.Pointer](typ, wire.Options{WithoutPlan: few})
		if err != nil {
			t.Fatal(err)
		}
		planned, err := newOf[unsafe.Pointer](typ, wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		weight, objects, bytes, needed := 0, uint64(0), uint64(0), false
		var held unsafe.Pointer
		for _, data := range encodings(t, newFiller(int64(seed>>1)), typ, 4*few) {
			var old unsafe.Pointer
			switch r.IntN(8) {
			case 0:
				data = data[:r.IntN(len(data)+1)]
			case 1:
				data = append(data, make([]byte, maxEarly)...)
			case 2, 3:
				old = held
			}
			got, gotErr := early.Decode(data, old)
			want, wantErr := planned.Decode(data, old)
			sameResult(t, typ, got, want, gotErr, wantErr)
			a, okA := early.Peek(data)
			b, okB := planned.Peek(data)
			if okA != okB || !reflect.DeepEqual(a, b) {
				t.Fatalf("%s: identity %v, %t, want %v, %t", typ, a, okA, b, okB)
			}
			needed = needed || wantErr != nil || len(data) > maxEarly || weight >= changeShare*few
			if wantErr == nil {
				held, objects, bytes = want, objects+1, bytes+uint64(len(data))
				if weight++; old == nil {
					weight += changeShare - 1
				}
			}
			if has := early.d != nil; has != needed {
				t.Fatalf("%s: after %d objects, weight %d, there is a plan: %t, want %t", typ, objects, weight, has, needed)
			}
			if st := early.Stats(); st.Objects != objects || st.Bytes != bytes {
				t.Fatalf("%s: %d objects and %d bytes are counted, want %d, %d", typ, st.Objects, st.Bytes, objects, bytes)
			}
		}
	})
}

func sameResult(t *testing.T, typ reflect.Type, got, want unsafe.Pointer, gotErr, wantErr error) {
	t.Helper()
	switch {
	case (gotErr != nil) != (wantErr != nil):
		t.Fatalf("%s: error %v, want %v", typ, redact.Decoding(gotErr), redact.Decoding(wantErr))
	case gotErr != nil:
		if gotErr.Error() != wantErr.Error() {
			t.Fatalf("%s: %v, want %v", typ, gotErr, wantErr)
		}
		return
	}
	a := reflect.NewAt(typ.Elem(), got).Interface().(generated)
	b := reflect.NewAt(typ.Elem(), want).Interface().(generated)
	if err := same(a, b); err != nil {
		t.Fatal(err)
	}
}

// TestPlanAtOnce: trims and kept bytes need a plan, and so do patches.
func TestPlanAtOnce(t *testing.T) {
	data := encodings(t, newFiller(1), registered()[0], 1)[0]
	for name, opts := range map[string]wire.Options{
		"trim": {WithoutPlan: 16, Trim: []string{"metadata.managedFields"}},
		"keep": {WithoutPlan: 16, KeepBytes: true},
	} {
		d, err := newOf[unsafe.Pointer](registered()[0], opts)
		if err != nil || d.d == nil {
			t.Errorf("%s: %v, without a plan", name, err)
		}
	}
	d, err := newOf[unsafe.Pointer](registered()[0], wire.Options{WithoutPlan: 16})
	if err != nil || d.d != nil {
		t.Fatalf("%v, or with a plan", err)
	}
	d.Recheck()
	base, err := d.DecodeBase(data)
	if err != nil || base == nil {
		t.Error(err)
	}
	if _, err := d.DecodePatch(base, []byte{0xff}); err == nil || errors.Is(err, ErrNotSupported) || d.d == nil {
		t.Errorf("%v", err)
	}
}
