package fold

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// mustOpen fails the test unless the object opens to want, with Open and with View.
func mustOpen(t testing.TB, object Packed, want []byte) {
	t.Helper()
	prefix := []byte("prefix")
	got, err := object.Open(prefix)
	if err != nil || !bytes.HasPrefix(got, prefix) || !bytes.Equal(got[len(prefix):], want) {
		t.Fatalf("%d bytes open to %d bytes behind the prefix, %v", len(want), len(got)-len(prefix), err)
	}
	err = object.View(func(data []byte) error {
		if !bytes.Equal(data, want) {
			t.Fatalf("View of %d bytes shows %d bytes, and others", len(want), len(data))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if object.Len() != len(want) {
		t.Fatalf("Len of %d bytes is %d", len(want), object.Len())
	}
}

// randomObject generates objects that are hard in one way or another: empty, random, repetitive,
// long, cut out of real ones.
func randomObject(r *rand.Rand, real [][]byte) []byte {
	out := bytes.Clone(real[r.IntN(len(real))])
	switch r.IntN(8) {
	case 0:
		return randomBytes(r, r.IntN(70))
	case 1:
		return randomBytes(r, r.IntN(5000))
	case 2:
		return bytes.Repeat(randomBytes(r, 1+r.IntN(9)), r.IntN(3000))
	case 3: // beyond 64 KiB s2 does not use the dictionary
		for len(out) < 100_000 {
			out = append(out, real[r.IntN(len(real))]...)
		}
	case 4:
		out = out[r.IntN(len(out)):]
	case 5:
		for range 1 + r.IntN(20) {
			out[r.IntN(len(out))] ^= byte(1 << r.IntN(8))
		}
	}
	return out
}

func randomBytes(r *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}
