package store

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

// listNeighbors gathers objects decoded relative to their neighbors; it overwrites their encodings
// afterwards. It returns how many were decoded as a whole.
func listNeighbors(t *testing.T, w *Writer[*thing], codec codec.Codec[*thing], objects []*thing, fold func(g *Gathering[*thing], i int)) (whole int) {
	t.Helper()
	g, n := w.Store().Gather(0), w.Store().Neighbors()
	for i, o := range objects {
		if !addBeside(t, g, n, codec, o) {
			whole++
		}
		fold(g, i)
	}
	if g.Fold(); g.EncodedBytes() != 0 {
		t.Errorf("%d bytes are kept of objects that are folded", g.EncodedBytes())
	}
	txn := w.Begin()
	txn.Replace("", g, "1", false)
	g.Close()
	txn.Commit()
	return whole
}

// addBeside adds a decoded object to the gathering, and reports whether it was decoded relative to a neighbor.
func addBeside(t *testing.T, g *Gathering[*thing], n *Neighbors[*thing], codec codec.Codec[*thing], o *thing) bool {
	t.Helper()
	encoded, err := codec.Append(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	beside, e, ok := n.Decode(encoded)
	if !ok {
		beside = o.DeepCopy() // otherwise the caller would keep it open
		e = follow(n, beside, encoded)
	}
	if !reflect.DeepEqual(beside, o) {
		t.Fatalf("%v is decoded to %v", o, beside)
	}
	g.AddEncoded(beside, e)
	clear(encoded)
	return ok
}

// follow is Follow that always returns an encoding.
func follow(n *Neighbors[*thing], o *thing, encoded []byte) Encoding {
	if e, ok := n.Follow(o, encoded); ok {
		return e
	}
	return EncodingOf(encoded)
}

func neighborThings(kinds, each int) (objects []*thing) {
	for i := range kinds * each {
		o := plainThing(i)
		o.Annotations = map[string]string{"text": fmt.Sprint(i/each, inCommon)}
		objects = append(objects, o)
	}
	return objects
}

// TestNeighbors lists objects of a few kinds: one of each is decoded as a whole, the others as its
// patches, and all are folded that way.
func TestNeighbors(t *testing.T) {
	const kinds, each = 4, 2*fold.TemplateUses + 5
	codec := newPatchingCodec(t)
	w := newFoldWorldOf(t, 1, codec)
	objects := neighborThings(kinds, each)
	most := 0
	whole := listNeighbors(t, w.writer, codec, objects, func(g *Gathering[*thing], i int) {
		if most = max(most, g.EncodedBytes()); i == each/2 {
			g.Fold()
		}
	})
	if whole != kinds || patches(w.writer) != len(objects) {
		t.Errorf("%d objects were decoded as a whole, and %d of %d folded as patches", whole, patches(w.writer), len(objects))
	}
	if limit := len(objects) * 200; most == 0 || most > limit {
		t.Errorf("%d bytes are kept of objects that are not folded yet, want at most %d", most, limit)
	}
	runtime.GC() // otherwise the objects are still open
	s := w.writer.Store().Snapshot()
	for _, o := range objects {
		if got, ok := s.Get(object.KeyOf(o)); !ok || !reflect.DeepEqual(got, o) {
			t.Fatalf("%v is %v", o, got)
		}
	}
}

// TestFewNeighbors: templates of few objects do not pay off, so these are packed in another way.
func TestFewNeighbors(t *testing.T) {
	codec := newPatchingCodec(t)
	w := newFoldWorldOf(t, 1, codec)
	objects := neighborThings(20, 3)
	if whole := listNeighbors(t, w.writer, codec, objects, func(*Gathering[*thing], int) {}); whole != 20 {
		t.Errorf("%d objects were decoded as a whole", whole)
	}
	runtime.GC()
	s := w.writer.Store().Snapshot()
	if st := s.FoldStats(); st.Folded != len(objects) {
		t.Errorf("%+v", st)
	}
	for _, o := range objects {
		if got, ok := s.Get(object.KeyOf(o)); !ok || !reflect.DeepEqual(got, o) {
			t.Fatalf("%v is %v", o, got)
		}
	}
}

// TestNeighborsWithoutPatches: if a codec makes no patches, or fails to decode them, objects are decoded as a whole.
func TestNeighborsWithoutPatches(t *testing.T) {
	objects := neighborThings(2, 100)
	testseed.Each(t, 2, func(t *testing.T, seed uint64) {
		for _, codec := range []codec.Codec[*thing]{thingCodec{}, &faultyCodec{patchingCodec: newPatchingCodec(t), rand: rand.New(rand.NewPCG(seed, 1))}} {
			w := newFoldWorldOf(t, seed, codec)
			whole := listNeighbors(t, w.writer, codec, objects, func(*Gathering[*thing], int) {})
			if _, plain := codec.(thingCodec); whole < 2 || plain && whole != len(objects) {
				t.Errorf("%d objects were decoded as a whole", whole)
			}
			runtime.GC()
			s := w.writer.Store().Snapshot()
			for _, o := range objects {
				if got, ok := s.Get(object.KeyOf(o)); !ok || !reflect.DeepEqual(got, o) {
					t.Fatalf("%v is %v", o, got)
				}
			}
		}
	})
	w := NewWriter[*thing](Options{})
	if _, _, ok := w.Store().Neighbors().Decode([]byte("anything")); ok {
		t.Error("a store without a codec has decoded something")
	}
}

// lyingCodec makes inexact patches: they decode to the object, but do not open to its bytes.
type lyingCodec struct{ patchingCodec }

func (lyingCodec) Diff(dst, _, _ []byte, _ int) ([]byte, bool) { return append(dst, 0, 0), true }

func (lyingCodec) DecodePatch(base *thing, _ []byte) (*thing, error) { return base.DeepCopy(), nil }

// TestNeighborsThatDoNotOpen: an object with a broken patch, to be packed in another way, is encoded again.
func TestNeighborsThatDoNotOpen(t *testing.T) {
	codec := lyingCodec{newPatchingCodec(t)}
	w := newFoldWorldOf(t, 1, codec)
	o := neighborThings(1, 1)[0]
	encoded, _ := codec.Append(nil, o)
	n := w.writer.Store().Neighbors()
	g := w.writer.Store().Gather(0)
	g.AddEncoded(o, follow(n, o, encoded))
	other := o.DeepCopy()
	other.Name, other.Labels = "other", nil
	otherEncoded, _ := codec.Append(nil, other)
	if _, e, ok := n.Decode(otherEncoded); !ok {
		t.Error("there is no patch")
	} else {
		g.AddEncoded(other, e)
	}
	g.Fold()
	txn := w.writer.Begin()
	txn.Replace("", g, "1", false)
	g.Close()
	txn.Commit()
	want := []*thing{o.DeepCopy(), other.DeepCopy()}
	o, other = nil, nil
	runtime.GC()
	for _, o := range want {
		if got, ok := w.writer.Store().Snapshot().Get(object.KeyOf(o)); !ok || !reflect.DeepEqual(got, o) {
			t.Fatalf("%v is %v", o, got)
		}
	}
}

// TestStrayWritesToNeighbors: a forbidden write to an object of a list reaches few others.
func TestStrayWritesToNeighbors(t *testing.T) {
	codec := newPatchingCodec(t)
	w := newFoldWorldOf(t, 1, codec)
	n := w.writer.Store().Neighbors()
	objects := neighborThings(1, 3*fold.TemplateUses)
	spoiled := 0
	for i, o := range objects {
		encoded, _ := codec.Append(nil, o)
		got, _, ok := n.Decode(encoded)
		if !ok {
			got = o
			follow(n, o, encoded)
		}
		if got.Annotations["text"] == "stray" {
			spoiled++
		}
		if i == 2 {
			got.Annotations["text"] = "stray"
		}
	}
	if spoiled < 2 || spoiled > fold.TemplateUses {
		t.Errorf("the stray write shows in %d objects", spoiled)
	}
}

// baselessCodec cannot decode the bases of patches.
type baselessCodec struct {
	patchingCodec
	asked *int
}

func (c baselessCodec) DecodeBase([]byte) (*thing, error) { *c.asked++; return nil, errFaulty }

// TestNeighborsWithoutABase: a template that cannot be decoded again is dropped, and not retried
// for each following object.
func TestNeighborsWithoutABase(t *testing.T) {
	asked := 0
	codec := baselessCodec{newPatchingCodec(t), &asked}
	n := newFoldWorldOf(t, 1, codec).writer.Store().Neighbors()
	patches := 0
	for i, o := range neighborThings(1, 3*fold.TemplateUses) {
		encoded, _ := codec.Append(nil, o)
		if i == 0 {
			follow(n, o, encoded)
		} else if _, _, ok := n.Decode(encoded); ok {
			patches++
		}
	}
	if asked != 1 || patches != fold.TemplateUses {
		t.Errorf("%d objects became patches of the template, and it was tried %d times", patches, asked)
	}
}

// TestNeighborsThatAreDropped: truncating a list drops the encodings of its objects, and the others
// are folded from their own.
func TestNeighborsThatAreDropped(t *testing.T) {
	const n, left = 40, 15
	codec := newPatchingCodec(t)
	w := newFoldWorldOf(t, 1, codec).writer
	objects := neighborThings(1, n)
	g, neighbors := w.Store().Gather(0), w.Store().Neighbors()
	var bytes []int
	for i, o := range objects {
		bytes = append(bytes, g.EncodedBytes())
		encoded, err := codec.Append(nil, o)
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := neighbors.Follow(o, encoded); ok && i%2 == 0 {
			g.AddEncoded(o, e)
		} else {
			g.AddEncoded(o, EncodingOf(encoded))
		}
	}
	if g.Truncate(left); g.EncodedBytes() != bytes[left] {
		t.Errorf("%d bytes are kept of %d objects, want %d", g.EncodedBytes(), left, bytes[left])
	}
	g.Remove(2) // the last one has taken its place
	if g.Truncate(left - 2); g.EncodedBytes() != bytes[left] {
		t.Errorf("%d bytes are kept of objects one of which was the last of %d, want %d", g.EncodedBytes(), left, bytes[left])
	}
	if g.Truncate(0); g.EncodedBytes() != 0 {
		t.Errorf("%d bytes are kept of no objects", g.EncodedBytes())
	}
}

// TestTemplatesOfNeighborsCount: if objects have nothing in common, each is kept as a template,
// which takes more than its encoding.
func TestTemplatesOfNeighborsCount(t *testing.T) {
	const n = 30
	codec := newPatchingCodec(t)
	w := newFoldWorldOf(t, 1, codec).writer
	r := testseed.Rand(t)
	g, neighbors, all := w.Store().Gather(0), w.Store().Neighbors(), 0
	for i := range n {
		text := make([]byte, 2000)
		for j := range text {
			text[j] = byte('a' + r.IntN(26))
		}
		o := plainThing(i)
		o.Annotations["text"] = string(text)
		encoded, err := codec.Append(nil, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, ok := neighbors.Decode(encoded); ok {
			t.Fatalf("%v is like its neighbor", o)
		}
		e, _ := neighbors.Follow(o, encoded)
		all += len(encoded)
		if g.AddEncoded(o, e); g.EncodedBytes() < all {
			t.Fatalf("%d bytes are kept of encodings of %d", g.EncodedBytes(), all)
		}
	}
	if g.Truncate(n / 2); g.EncodedBytes() < all/2 || g.EncodedBytes() > all {
		t.Errorf("%d bytes are kept of encodings of %d", g.EncodedBytes(), all/2)
	}
	if g.Fold(); g.EncodedBytes() != 0 {
		t.Errorf("%d bytes are kept of objects that are folded", g.EncodedBytes())
	}
	g.Close()
}

// TestLargeObjectsAreNoTemplates: objects too large to compare are not copied for that.
func TestLargeObjectsAreNoTemplates(t *testing.T) {
	codec := newPatchingCodec(t)
	n := newFoldWorldOf(t, 1, codec).writer.Store().Neighbors()
	o := plainThing(1)
	o.Annotations["text"] = strings.Repeat(inCommon, 100)
	encoded, err := codec.Append(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	allocs := testing.AllocsPerRun(10, func() {
		if _, ok := n.Follow(o, encoded); ok {
			t.Errorf("an object of %d bytes is a template", len(encoded))
		}
	})
	if allocs != 0 {
		t.Errorf("%.0f allocations for an object of %d bytes", allocs, len(encoded))
	}
}
