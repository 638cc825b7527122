package store

import (
	"fmt"
	"testing"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

// TestPackTogether folds objects one by one, in random order, and then repacks neighbors, which
// have much in common, together.
func TestPackTogether(t *testing.T) {
	const kinds, each = 3, 500
	w := newFoldWorld(t, testseed.Seed(t))
	var keys []object.Key
	txn := w.writer.Begin()
	for kind := range kinds {
		lines := make([]string, 100)
		for i := range lines {
			lines[i] = fmt.Sprintf("%016x%016x", w.rand.Uint64(), w.rand.Uint64())
		}
		for i := range each {
			k := object.Key{Namespace: "a", Name: fmt.Sprintf("%d-%05d", kind, i)}
			o := w.thing(k)
			delete(o.Labels, "open")
			for range 40 {
				o.Annotations["text"] += lines[w.rand.IntN(len(lines))]
			}
			txn.Put(k, o)
			w.model[k], keys = o, append(keys, k)
		}
	}
	txn.Commit()
	w.rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, k := range keys {
		if n := foldKeys(w.writer, true, k); n != 1 {
			t.Fatalf("%v: %d objects were folded", k, n)
		}
	}
	held, _ := w.writer.Store().Snapshot().Get(keys[0])
	before := w.writer.Store().Snapshot().FoldStats()
	first := packTogether(w.writer)
	after := w.writer.Store().Snapshot().FoldStats()
	t.Logf("packed %d again: %d bytes before, %d after", first, before.Bytes, after.Bytes)
	if first < len(keys)/2 || after.Bytes >= before.Bytes*9/10 || after.Folded != len(keys) {
		t.Errorf("packed %d again: %+v before, %+v after", first, before, after)
	}
	if second := packTogether(w.writer); second > len(keys)/2 {
		t.Errorf("%d objects were packed a second time", second)
	}
	if again, _ := w.writer.Store().Snapshot().Get(keys[0]); again != held {
		t.Error("an object that is held was opened once more")
	}
	w.verify(w.writer.Store().Snapshot(), w.model)
	w.checkPacker()
}

// packTogether passes once over the store and returns how many objects were repacked.
func packTogether(w *Writer[*thing]) (packed int) {
	for next := (object.Key{}); ; {
		cold := w.Store().PackTogether(next, 700)
		txn := w.Begin()
		packed += txn.Fold(cold)
		txn.Commit()
		if next = cold.Next; next == (object.Key{}) {
			return packed
		}
	}
}

// bufferedCodec records the most bytes that waited in a buffer during encoding.
type bufferedCodec struct {
	patchingCodec
	most *int
}

func (c bufferedCodec) Append(dst []byte, o *thing) ([]byte, error) {
	*c.most = max(*c.most, len(dst))
	return c.patchingCodec.Append(dst, o)
}

// TestPackOneByOne: encoded objects that are not neighbors do not wait for each other.
func TestPackOneByOne(t *testing.T) {
	codec := bufferedCodec{newPatchingCodec(t), new(int)}
	w := newFoldWorldOf(t, 1, codec).writer
	var keys []object.Key
	txn := w.Begin()
	for _, o := range neighborThings(1, 300) {
		txn.Set(object.KeyOf(o), o)
		keys = append(keys, object.KeyOf(o))
	}
	txn.Commit()
	if n := foldKeys(w, true, keys...); n != len(keys) || *codec.most != 0 {
		t.Errorf("%d objects were folded, and %d bytes waited", n, *codec.most)
	}
}
