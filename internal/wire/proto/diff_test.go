package proto

import (
	"bytes"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/patch"
	"github.com/tidings/tidings/internal/wire/wiretest"
)

// patchedTypes are types with fields of all forms.
var patchedTypes = []reflect.Type{
	reflect.TypeFor[*corev1.Pod](), reflect.TypeFor[*corev1.Node](), reflect.TypeFor[*corev1.ConfigMap](), reflect.TypeFor[*corev1.Event](),
	reflect.TypeFor[*discoveryv1.EndpointSlice](), reflect.TypeFor[*coordinationv1.Lease](),
	reflect.TypeFor[*metav1.PartialObjectMetadata](), reflect.TypeFor[*metav1.APIResourceList](),
}

func newDiffer(t testing.TB, typ reflect.Type) wire.Differ {
	t.Helper()
	d, err := NewAsInterface[generated](typ, wire.Options{})
	must(t, err)
	return d.NewDiffer()
}

// checkDiff makes a patch and applies it, which must yield exactly data. It returns nil if there is no patch.
func checkDiff(t testing.TB, d wire.Differ, base, data []byte) []byte {
	t.Helper()
	kept := []byte("kept")
	p, ok := d.Diff(kept, 0, bytes.Clone(base), bytes.Clone(data), math.MaxInt32)
	if !bytes.HasPrefix(p, kept) || !ok && len(p) > len(kept) {
		t.Fatalf("the buffer became %q", p)
	}
	if !ok {
		return nil
	}
	p = p[len(kept):]
	got, err := patch.Apply(kept, base, p, len(data))
	if want := append(kept, data...); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%v\npatch %x\nof    %x\nmakes %x\nwant  %x", err, p, base, got, want)
	}
	if len(data) > 0 {
		if _, err := patch.Apply(nil, base, p, len(data)-1); err == nil {
			t.Fatalf("patch %x of %x makes more than it may", p, base)
		}
	}
	return p
}

// neighbors returns encoded objects of typ, most of which have much in common with another one.
func neighbors(t testing.TB, rng *rand.Rand, typ reflect.Type, n int) (out [][]byte) {
	t.Helper()
	if typ == reflect.TypeFor[*corev1.Pod]() {
		out = encodedPods(t, n, rng.Uint64())
	}
	f := newFiller(rng.Int64())
	for range n {
		obj := newGenerated(typ)
		f.Fill(obj)
		for range 4 {
			data, err := obj.Marshal()
			must(t, err)
			out = append(out, data)
			for range 1 + rng.IntN(6) {
				vary(rng, reflect.ValueOf(obj).Elem())
			}
		}
	}
	return out
}

// TestDiff makes patches of objects as servers write them, which always have one, and of malformed
// or oddly encoded ones, which may have none.
func TestDiff(t *testing.T) {
	rng := testseed.Rand(t)
	for _, typ := range patchedTypes {
		d, all := newDiffer(t, typ), neighbors(t, rng, typ, 4)
		odd := 0
		for range 300 {
			base, data := pick(rng, all), pick(rng, all)
			if checkDiff(t, d, base, data) == nil {
				t.Fatalf("no patch of %x\nfor %x", base, data)
			}
			switch rng.IntN(4) {
			case 0:
				base = mutate(rng, base, all)
			case 1:
				data = mutate(rng, base, all)
			case 2:
				base = mutate(rng, base, all)
				data = mutate(rng, base, all)
			case 3:
				data = varyFields(rng, varyFields(rng, data))
			}
			if checkDiff(t, d, base, data) != nil {
				odd++
			}
		}
		if odd < 20 {
			t.Errorf("%s: only %d of the odd ones have patches", typ, odd)
		}
	}
}

// TestDiffOfOddFields makes patches between messages with all pairs of fields, valid and odd, at the top and nested.
func TestDiffOfOddFields(t *testing.T) {
	fields := slices.Concat(oddFields, [][]byte{
		nil, {0x08, 0x01}, {0x0a, 0x00}, {0x0a, 0x01, 'a'}, {0x0a, 0x02, 'a'}, {0x0a}, {0x0b, 0x0c}, {0x0b, 0x14}, {0x0d, 1, 2, 3, 4}, {0x09, 1, 2}, {0x0e, 0x01},
		{0x0a, 0x81, 0x00, 'a'}, {0x8a, 0x00, 0x01, 'a'}, // a length and a tag in overlong encoding
		{0x0a, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02, 'a'},    // a length with a 65th bit
		{0xf8, 0xff, 0xff, 0xff, 0x3f, 0x01}, {0xfa, 0xff, 0xff, 0xff, 0x3f, 0x00}, // the largest field number
		{0x12, 0x00}, {0x12, 0x02, 0x0a, 0x00}, {0x12, 0x04, 0x52, 0x02, 'h', 'i'}, {0x12, 0x06, 0x12, 0x00, 0x12, 0x02, 0x0a, 0x00}, {0x1a, 0x02, 0x0a, 0x00},
	})
	var messages [][]byte
	for _, a := range fields {
		for _, b := range fields {
			messages = append(messages, slices.Concat(a, b))
		}
	}
	d := newDiffer(t, reflect.TypeFor[*corev1.Pod]())
	rng, patches := testseed.Rand(t), 0
	for _, data := range messages {
		for range 20 {
			base := pick(rng, messages)
			for _, field := range []int{0, podMetadata, podSpec} {
				if field > 0 {
					base, data = messageField(field, base), messageField(field, data)
				}
				if checkDiff(t, d, base, data) != nil {
					patches++
				}
			}
		}
	}
	if patches < 300 {
		t.Errorf("%d patches", patches)
	}
}

// TestDiffOfLengths changes texts within nested messages such that the encodings of the lengths
// around them grow or shrink.
func TestDiffOfLengths(t *testing.T) {
	d := newDiffer(t, reflect.TypeFor[*corev1.Pod]())
	pod := func(n int) []byte {
		name := messageField(containerName, bytes.Repeat([]byte("x"), n))
		return messageField(podSpec, messageField(specContainers, name), messageField(specContainers, name))
	}
	sizes := []int{0, 1, 40, 60, 61, 62, 63, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 8000, 8190, 16379, 16380, 16381, 16382, 16383, 16384, 16390}
	for _, n := range sizes {
		for _, k := range sizes {
			if checkDiff(t, d, pod(n), pod(k)) == nil {
				t.Errorf("no patch from %d to %d", n, k)
			}
		}
	}
}

// TestDiffKeepsHead has bytes before the message, whose number is in the patch.
func TestDiffKeepsHead(t *testing.T) {
	d := newDiffer(t, reflect.TypeFor[*corev1.Pod]())
	pods := encodedPods(t, 2, 1)
	base, data := append([]byte("head"), pods[0]...), append([]byte("head"), pods[1]...)
	p, ok := d.Diff(nil, 4, base, data, len(data))
	if !ok {
		t.Fatal("no patch")
	}
	if got, err := patch.Apply(nil, base, p, len(data)); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%q, %v", got, err)
	}
}

// TestDiffIsBounded asks for patches of limited length.
func TestDiffIsBounded(t *testing.T) {
	d := newDiffer(t, reflect.TypeFor[*corev1.Pod]())
	pods := encodedPods(t, 6, 1)
	for i, base := range pods[1:] {
		p := checkDiff(t, d, base, pods[i])
		for most := range len(p) {
			if short, ok := d.Diff([]byte("kept"), 0, base, pods[i], most); ok || string(short) != "kept" {
				t.Fatalf("a patch of %d bytes was made with at most %d: %q", len(p), most, short)
			}
		}
	}
}

// TestDiffIsSmall: a patch contains nothing that neighbors have in common.
func TestDiffIsSmall(t *testing.T) {
	d := newDiffer(t, reflect.TypeFor[*corev1.Pod]())
	pods := wiretest.PodsOfSmallOwners(100, 10, 1)
	encoded, patches := marshalAll(t, pods), 0
	for i := range encoded[1:] {
		patches += len(checkDiff(t, d, encoded[i], encoded[i+1]))
	}
	if whole := sizeOf(encoded[1:]); patches > whole/3 {
		t.Errorf("the patches have %d bytes, the objects %d", patches, whole)
	}
	if same := checkDiff(t, d, encoded[0], encoded[0]); len(same) > 2 {
		t.Errorf("the patch of an equal object is %x", same)
	}
}

// TestNoDiffOfUnfitMessages: types decoded by their own method have no patches.
func TestNoDiffOfUnfitMessages(t *testing.T) {
	d, err := New[*unfit](wire.Options{})
	must(t, err)
	if p, ok := d.NewDiffer().Diff(nil, 0, nil, nil, 100); ok {
		t.Errorf("got %x", p)
	}
	if _, err := d.DecodePatch(&unfit{}, []byte{0, 0}); err == nil {
		t.Error("the patch was applied")
	}
}

// choices are a source of pseudo-random numbers: first the bytes of the input, then random ones.
type choices struct {
	chosen []byte
	rest   *rand.PCG
}

func (c *choices) Uint64() uint64 {
	if len(c.chosen) == 0 {
		return c.rest.Uint64()
	}
	b := c.chosen[0]
	c.chosen = c.chosen[1:]
	return uint64(b) * 0x0101010101010101
}

// smallMessages are encoded objects of each of the types, mostly of a few hundred bytes.
func smallMessages(t testing.TB, types []reflect.Type) map[reflect.Type][][]byte {
	t.Helper()
	f, rng := newFiller(1).NilChance(0.8).NumElements(0, 2), rand.New(rand.NewPCG(1, 1))
	all := map[reflect.Type][][]byte{}
	for _, typ := range types {
		for range 6 {
			obj := newGenerated(typ)
			f.Fill(obj)
			for range 3 {
				data, err := obj.Marshal()
				must(t, err)
				all[typ] = append(all[typ], data)
				vary(rng, reflect.ValueOf(obj).Elem())
			}
		}
	}
	return all
}

// related returns two messages derived from one, or each from its own.
func related(rng *rand.Rand, messages [][]byte) (base, data []byte) {
	base = pick(rng, messages)
	for range rng.IntN(3) {
		base = mutate(rng, base, messages)
	}
	if data = base; rng.IntN(4) == 0 {
		data = pick(rng, messages)
	}
	for range rng.IntN(6) {
		data = mutate(rng, data, messages)
	}
	return base, data
}

// FuzzNeighbors makes patches between messages derived from each other by changes of fields, which
// the input chooses, and applies them to the encoding and to the object. Unlike in FuzzDiff, most
// of the messages are valid.
func FuzzNeighbors(f *testing.F) {
	all := smallMessages(f, patchedTypes)
	differs, checks := map[reflect.Type]wire.Differ{}, map[reflect.Type]*patchChecker{}
	for i, typ := range patchedTypes {
		differs[typ], checks[typ] = newDiffer(f, typ), newPatchChecker(f, typ, keeping)
		for j := range 16 {
			f.Add([]byte{byte((i*256 + 255) / len(patchedTypes)), byte(j * 16), byte(j * 37), byte(j * 101), byte(j * 7)})
		}
	}
	f.Fuzz(func(t *testing.T, chosen []byte) {
		rng := rand.New(&choices{chosen, rand.NewPCG(uint64(crc32.ChecksumIEEE(chosen)), 1)})
		for range 16 { // a call of the fuzzing engine takes a millisecond
			typ := pick(rng, patchedTypes)
			base, data := related(rng, all[typ])
			if p := checkDiff(t, differs[typ], base, data); p != nil {
				checks[typ].patched(t, base, data, p)
				checkHostile(t, checks[typ], base, mutatePatch(rng, p, all[typ]))
			}
		}
	})
}

// FuzzDiff makes patches of arbitrary bytes, and applies them to the encoding and to the object.
func FuzzDiff(f *testing.F) {
	pods := smallMessages(f, []reflect.Type{reflect.TypeFor[*corev1.Pod]()})[reflect.TypeFor[*corev1.Pod]()]
	for i := range pods {
		f.Add(pods[i], pods[(i+1)%len(pods)])
	}
	for i := range oddInputs {
		f.Add(oddInputs[i], oddInputs[(i+1)%len(oddInputs)])
		f.Add(messageField(podSpec, oddInputs[i]), messageField(podSpec, oddInputs[(i+5)%len(oddInputs)]))
	}
	typ := reflect.TypeFor[*corev1.Pod]()
	d, check := newDiffer(f, typ), newPatchChecker(f, typ, keeping)
	f.Fuzz(func(t *testing.T, base, data []byte) {
		if p := checkDiff(t, d, base, data); p != nil {
			check.patched(t, base, data, p)
		}
	})
}
