package journal

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/tidings/tidings/internal/testseed"
)

func TestPatch(t *testing.T) {
	var d differ
	text := bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog; "), 20)
	for name, c := range map[string]struct{ base, target string }{
		"both empty":  {"", ""},
		"from empty":  {"", "something"},
		"to empty":    {"something", ""},
		"equal":       {string(text), string(text)},
		"moved":       {string(text), "a new beginning, " + string(text[100:]) + string(text[:100])},
		"no relation": {string(text), "0123456789"},
	} {
		p := d.patch([]byte(c.base), []byte(c.target))
		got, err := apply(nil, []byte(c.base), p)
		if err != nil || string(got) != c.target {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if name == "equal" && len(p) > 8 {
			t.Errorf("equal texts need a patch of %d bytes", len(p))
		}
	}
}

// TestPatchIsSmall: values that are replaced by others of the same length cost little more than the values.
func TestPatchIsSmall(t *testing.T) {
	rng := testseed.Rand(t)
	var d differ
	base := randomText(rng, 4000)
	target := bytes.Clone(base)
	for i := range 5 {
		copy(target[i*700+50:], randomText(rng, 10))
	}
	if n := len(d.patch(base, target)); n > 5*10+30 {
		t.Errorf("five values of 10 bytes need %d bytes", n)
	}
}

func TestPatchRandom(t *testing.T) {
	testseed.Each(t, 20, func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var d differ
		base := randomText(rng, rng.IntN(5000))
		for range 200 {
			target := edited(rng, base)
			p := d.patch(base, target)
			got, err := apply([]byte("before "), base, p)
			if err != nil || string(got) != "before "+string(target) {
				t.Fatalf("from %q to %q: got %q, %v", base, target, got, err)
			}
			base = target
		}
	})
}

// edited returns text with some parts replaced, removed, added, moved or repeated.
func edited(rng *rand.Rand, text []byte) []byte {
	out := bytes.Clone(text)
	for range rng.IntN(6) {
		from := rng.IntN(len(out) + 1)
		to := from + rng.IntN(min(len(out)-from, 60)+1)
		var part []byte
		switch rng.IntN(4) {
		case 0:
			part = randomText(rng, to-from)
		case 1:
			part = randomText(rng, rng.IntN(40))
		case 2:
			at := rng.IntN(len(out) + 1)
			part = out[at:min(len(out), at+100)]
		}
		out = append(append(bytes.Clone(out[:from]), part...), out[to:]...)
	}
	return out
}

func randomText(rng *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[rng.IntN(36)]
	}
	return out
}

// FuzzApply: any patch gives a result or an error.
func FuzzApply(f *testing.F) {
	var d differ
	base, target := []byte("one two three four five six seven"), []byte("one two 3 four five 6 seven eight")
	f.Add(base, []byte(d.patch(base, target)))
	f.Add([]byte(""), []byte{4, 1, 'x', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0xff})
	f.Fuzz(func(t *testing.T, base, patch []byte) {
		if len(base) > 1<<12 || len(patch) > 1<<12 {
			t.Skip()
		}
		if _, err := apply(nil, base, string(patch)); err != nil && err != errPatch {
			t.Error(err)
		}
	})
}

// FuzzPatch: a patch makes exactly its target.
func FuzzPatch(f *testing.F) {
	f.Add([]byte("one two three four five six seven"), []byte("one two 3 four five 6 seven eight"))
	f.Fuzz(func(t *testing.T, base, target []byte) {
		var d differ
		got, err := apply(nil, base, d.patch(base, target))
		if err != nil || !bytes.Equal(got, target) {
			t.Errorf("got %q, %v", got, err)
		}
	})
}
