package proto

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire"
)

// objects makes the comparison more thorough: go test -run TestEveryType -objects 50.
var objects = flag.Int("objects", 2, "random objects of each type")

// TestEveryType compares with the generated decoder for random objects of all types, valid and
// malformed, with and without sharing between objects. At the end no object may have changed.
func TestEveryType(t *testing.T) {
	seed := testseed.Seed(t)
	for i, typ := range registered() {
		t.Run(typ.String(), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for _, opts := range []wire.Options{{}, {NoSharing: true}, {MaxTableBytes: 4096}, keeping} {
				d, err := newUntyped(typ, opts)
				if err != nil {
					t.Fatal(err)
				}
				inputs := encodings(t, newFiller(int64(seed)+int64(i)), typ, *objects)
				var kept, want []generated
				for range 2 {
					for _, data := range inputs {
						input := bytes.Clone(data)
						got, err := decodeAny(d, input)
						if err != nil {
							t.Fatalf("seed %d: %v", seed, err)
						}
						clear(input) // reveals references to the input
						w, err := oracle(typ, data)
						if err != nil {
							t.Fatal(err)
						}
						kept, want = append(kept, got), append(want, w)
						for range 3 {
							if err := sameVerdict(d, typ, mutate(rng, data, inputs)); err != nil {
								t.Fatalf("seed %d, %+v: %v", seed, opts, err)
							}
						}
					}
				}
				for k := range kept {
					if err := same(kept[k], want[k]); err != nil {
						t.Fatalf("seed %d, %+v: object %d: %v", seed, opts, k, err)
					}
				}
			}
		})
	}
}

// mutate breaks data in one of several ways, some of which keep it valid.
func mutate(rng *rand.Rand, data []byte, others [][]byte) []byte {
	out := bytes.Clone(data)
	if len(out) == 0 {
		return []byte{byte(rng.UintN(256))}
	}
	at := rng.IntN(len(out))
	switch rng.IntN(14) {
	case 0: // one bit
		out[at] ^= 1 << rng.UintN(8)
	case 1: // truncated
		out = out[:at]
	case 2: // a part duplicated
		to := at + rng.IntN(len(out)-at+1)
		out = append(out[:to:to], out[at:]...)
	case 3: // a part missing
		to := at + rng.IntN(len(out)-at+1)
		out = append(out[:at:at], out[to:]...)
	case 4: // two objects after one another: protobuf merges them
		out = append(out, others[rng.IntN(len(others))]...)
	case 5: // a part of another object
		other := others[rng.IntN(len(others))]
		out = append(out[:at:at], other[min(at, len(other)):]...)
	case 6: // some random bytes
		for range 1 + rng.IntN(4) {
			out[rng.IntN(len(out))] = byte(rng.UintN(256))
		}
	default:
		for range 1 + rng.IntN(2) {
			out = varyFields(rng, out)
		}
	}
	return out
}
