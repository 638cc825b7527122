package store

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// thingCodec encodes things. It cannot encode those with the label "open".
type thingCodec struct{}

var errOpen = errors.New("it stays open")

func (thingCodec) Append(dst []byte, o *thing) ([]byte, error) {
	if _, ok := o.Labels["open"]; ok {
		return dst, errOpen
	}
	data, err := o.Marshal()
	return append(dst, data...), err
}

func (c thingCodec) Decode(data []byte, _ *thing) (*thing, error) { return c.DecodeAlone(data) }

func (thingCodec) DecodeAlone(data []byte) (*thing, error) {
	o := new(thing)
	return o, o.Unmarshal(data)
}

// foldWorld runs random operations on a store that folds and on a map.
type foldWorld struct {
	t       *testing.T
	rand    *rand.Rand
	writer  *Writer[*thing]
	index   *Index[*thing]
	model   model
	version int
	hand    object.Key
	kept    []keptSnapshot
	held    []*thing // objects that a reader holds
	codec   codec.Codec[*thing]
	common  string             // text that all things have in common
	nexts   int                // changes decoded relative to earlier states
	gather  *Gathering[*thing] // a list that is arriving, or nil
}

func newFoldWorld(t *testing.T, seed uint64) *foldWorld { return newFoldWorldOf(t, seed, thingCodec{}) }

func newFoldWorldOf(t *testing.T, seed uint64, codec codec.Codec[*thing]) *foldWorld {
	failed := func(k object.Key, err error) { t.Errorf("%v cannot be opened: %v", k, err) }
	strayed := func(k object.Key) { t.Errorf("somebody is said to have written to %v", k) }
	w := &foldWorld{t: t, rand: rand.New(rand.NewPCG(seed, 0)), model: model{}, writer: NewWriter[*thing](Options{OnOpenError: failed, OnStrayPart: strayed}), codec: codec}
	w.writer.UseCodec(codec, reflect.TypeFor[*thing]())
	w.writer.Store().Snapshot().folds.opened.scheduled.Store(true) // nobody else tidies the table while it is checked
	w.index = w.writer.AddIndex("app", byLabel("app"))
	w.writer.Store().KeepRecent(w.rand.IntN(20))
	return w
}

func (w *foldWorld) thing(k object.Key) *thing {
	w.version++
	o := newThing(k.Namespace, k.Name, map[string]string{"app": fmt.Sprint(w.rand.IntN(6))})
	o.ResourceVersion = fmt.Sprint(w.version)
	o.UID = types.UID(fmt.Sprintf("0000%04x-0000-4000-8000-%012x", w.rand.IntN(2), w.rand.IntN(2)))
	o.Annotations = map[string]string{"text": strings.Repeat(fmt.Sprint(w.rand.IntN(100), " "), 20)}
	if w.common != "" {
		o.Finalizers = []string{w.common} // in patches, maps are always written whole
	}
	if w.rand.IntN(20) == 0 {
		o.Labels["open"] = ""
	}
	if w.rand.IntN(20) == 0 {
		o.UID, o.ResourceVersion = "x", "" // not the form that servers use
	}
	return o
}

func (w *foldWorld) key() object.Key {
	return object.Key{Namespace: fmt.Sprint("ns", w.rand.IntN(3)), Name: fmt.Sprint("n", w.rand.IntN(100))}
}

func (w *foldWorld) step() {
	switch w.rand.IntN(8) {
	case 0, 1, 2:
		w.batch()
	case 3, 4:
		w.fold()
	case 5:
		w.relist()
	case 6:
		w.read()
	case 7:
		w.late()
	}
}

// batch sets, deletes and undoes.
func (w *foldWorld) batch() {
	txn, before := w.writer.Begin(), maps.Clone(w.model)
	deletes := w.rand.IntN(10)
	for range w.rand.IntN(60) {
		k := w.key()
		want, wanted := w.model[k]
		var old Held[*thing]
		var existed bool
		if w.rand.IntN(10) < deletes {
			old, existed = txn.Remove(k)
			delete(w.model, k)
		} else {
			w.model[k] = w.thing(k)
			encoded, err := w.codec.Append(nil, w.model[k])
			switch {
			case err != nil || w.rand.IntN(3) == 0:
				old, existed = txn.Put(k, w.model[k])
			case w.rand.IntN(2) == 0:
				old, existed = txn.PutCold(k, w.model[k], EncodingOf(encoded))
			default:
				next, e := w.decodedNext(k, encoded)
				w.model[k] = next
				old, existed = txn.PutCold(k, next, e)
			}
			if existed && w.rand.IntN(5) == 0 {
				txn.PutBack(old)
				w.model[k] = want
			}
		}
		if existed != wanted {
			w.t.Fatalf("%v existed: %t, want %t", k, existed, wanted)
		}
		if existed {
			w.checkHeld(&old, want)
		}
	}
	if w.rand.IntN(8) == 0 {
		txn.Abort()
		w.model = before
		return
	}
	w.keep(txn.Commit())
}

// decodedNext decodes a change relative to the state in the store, opened or not, if that is a patch.
func (w *foldWorld) decodedNext(k object.Key, encoded []byte) (*thing, Encoding) {
	o := w.model[k]
	held, ok := w.writer.Store().Snapshot().LikelyHeld(k)
	if !ok || !held.IsPatch() {
		return o, EncodingOf(encoded)
	}
	var before *thing
	if w.rand.IntN(2) == 0 {
		before = held.Object()
	}
	was := before.DeepCopy()
	next, e, ok := held.DecodeNext(before, encoded)
	if !ok {
		return o, EncodingOf(encoded)
	}
	w.nexts++
	clear(encoded) // nobody may keep it
	if !reflect.DeepEqual(next, o) || !reflect.DeepEqual(before, was) {
		w.t.Fatalf("after %v, %v is decoded to %v, and the earlier one is %v", was, o, next, before)
	}
	return next, e
}

func (w *foldWorld) checkHeld(h *Held[*thing], want *thing) {
	if h.UID() != want.UID || h.ResourceVersion() != want.ResourceVersion || h.Key() != object.KeyOf(want) {
		w.t.Fatalf("held %v %q %q, want %v", h.Key(), h.UID(), h.ResourceVersion(), want)
	}
	if w.rand.IntN(2) == 0 && !reflect.DeepEqual(h.Object(), want) {
		w.t.Fatalf("held %v, want %v", h.Object(), want)
	}
}

// fold packs some objects, and changes some of them before it folds them.
func (w *foldWorld) fold() {
	cold := w.writer.Store().PackCold(w.hand, 1+w.rand.IntN(300), w.rand.IntN(2) == 0)
	again := w.writer.Store().PackAgain(w.hand, 1+w.rand.IntN(300)) // objects packed before there was a dictionary
	together := w.writer.Store().PackTogether(w.hand, 1+w.rand.IntN(300))
	idle, _ := w.writer.Store().PackIdle(w.hand, 1+w.rand.IntN(300), w.rand.IntN(maxIdle+1))
	var opening *Opening[*thing]
	if w.rand.IntN(3) == 0 {
		opening = w.writer.Store().OpenFolded(w.hand, 1+w.rand.IntN(300))
	}
	w.writer.Store().ForgetIdle(1 + w.rand.IntN(maxIdle))
	w.hand = cold.Next
	txn := w.writer.Begin()
	for range w.rand.IntN(3) {
		k := w.key()
		w.model[k] = w.thing(k)
		txn.Set(k, w.model[k])
	}
	if opening != nil {
		txn.Unfold(opening)
	}
	txn.Fold(cold)
	txn.Fold(idle)
	txn.Fold(again)
	txn.Fold(together)
	w.keep(txn.Commit())
}

// relist replaces the objects of a namespace, or all, by a list that was partly folded while it came.
func (w *foldWorld) relist() {
	namespace := []string{"", "ns1"}[w.rand.IntN(2)]
	g := w.writer.Store().Gather(w.rand.IntN(100))
	before, n := w.writer.Store().Snapshot(), w.writer.Store().Neighbors()
	next := model{}
	for k, o := range w.model {
		if namespace != "" && k.Namespace != namespace {
			next[k] = o
		}
	}
	foldEvery := 1 + w.rand.IntN(50)
	for range w.rand.IntN(200) {
		k := w.key()
		if namespace != "" {
			k.Namespace = namespace
		}
		if _, again := next[k]; again {
			continue
		}
		h, held := before.Held(k)
		switch {
		case held && w.rand.IntN(3) == 0:
			g.AddHeld(h)
			next[k] = w.model[k]
		case held && w.rand.IntN(3) == 0:
			g.Add(w.model[k].DeepCopy()) // equal contents
			next[k] = w.model[k]
		default:
			next[k] = w.thing(k)
			if encoded, err := w.codec.Append(nil, next[k]); err == nil && w.rand.IntN(3) > 0 {
				next[k] = w.decoded(n, next[k], encoded, g)
			} else {
				g.Add(next[k])
			}
		}
		switch i := w.rand.IntN(g.Len()); w.rand.IntN(10) {
		case 0:
			delete(next, g.Key(i))
			g.Remove(i)
		case 1:
			next[g.Key(i)] = w.thing(g.Key(i))
			g.Set(i, next[g.Key(i)])
		case 2:
			for j := i; j < g.Len(); j++ {
				delete(next, g.Key(j))
			}
			g.Truncate(i)
		}
		if g.Len()%foldEvery == 0 {
			g.Fold()
		}
	}
	txn := w.writer.Begin()
	deltas := txn.Replace(namespace, g, fmt.Sprint(w.version), true)
	got := maps.Clone(w.model)
	for _, d := range deltas {
		if d.Type == object.Deleted {
			delete(got, d.Key)
		} else {
			got[d.Key] = d.Object
		}
	}
	w.model = next
	g.Close()
	w.keep(txn.Commit())
	if !reflect.DeepEqual(got, next) {
		w.t.Fatal("the deltas do not lead from the one state to the other")
	}
}

// decoded adds an object of a list as it came, or as decoded relative to its neighbors.
func (w *foldWorld) decoded(n *Neighbors[*thing], o *thing, encoded []byte, g *Gathering[*thing]) *thing {
	if w.rand.IntN(3) == 0 {
		g.AddEncoded(o, EncodingOf(encoded))
		return o
	}
	beside, e, ok := n.Decode(encoded)
	if !ok {
		beside, e = o, follow(n, o, encoded)
	}
	if !reflect.DeepEqual(beside, o) {
		w.t.Fatalf("%v is decoded to %v", o, beside)
	}
	g.AddEncoded(beside, e)
	clear(encoded) // nobody may keep it
	return beside
}

// read reads some objects one by one, and holds one.
func (w *foldWorld) read() {
	s := w.writer.Store().Snapshot()
	for range w.rand.IntN(30) {
		k := w.key()
		o, ok := s.Get(k)
		if ok != (w.model[k] != nil) || ok && !reflect.DeepEqual(o, w.model[k]) {
			w.t.Fatalf("Get(%v) = %v, want %v", k, o, w.model[k])
		}
		if again, _ := s.Get(k); again != o {
			w.t.Fatalf("%v is two objects", k)
		}
		if ok && w.rand.IntN(10) == 0 {
			w.held = append(w.held, o)
		}
	}
	if w.rand.IntN(10) == 0 {
		w.held = nil
		runtime.GC()
	}
}

// late adds an index, which has to open everything, and removes it.
func (w *foldWorld) late() {
	late := w.writer.AddIndex("late", byAllLabels)
	check(w.t, w.writer.Store().Snapshot())
	w.writer.RemoveIndex(late)
	w.verifyIndex(w.writer.Store().Snapshot(), w.model, late)
}

func (w *foldWorld) keep(s *Snapshot[*thing]) {
	if w.rand.IntN(4) == 0 {
		w.kept = append(w.kept, keptSnapshot{snapshot: s, model: maps.Clone(w.model)})
	}
	if len(w.kept) > 4 {
		w.kept = w.kept[1:]
	}
}

func same(got, want []*thing) bool {
	return slices.EqualFunc(got, want, func(a, b *thing) bool { return reflect.DeepEqual(a, b) })
}

func (w *foldWorld) verify(s *Snapshot[*thing], m model) {
	w.t.Helper()
	check(w.t, s)
	if !same(objects(s.All()), m.sorted()) || s.Len() != len(m) {
		w.t.Fatal("All differs from the model")
	}
	space := func(o *thing) bool { return o.Namespace == "ns1" }
	if !same(objects(s.Namespace("ns1")), m.where(space)) || !same(objects(s.In("ns1").All()), m.where(space)) {
		w.t.Fatal("Namespace differs from the model")
	}
	w.verifyIndex(s, m, w.index)
	for h := range s.AllHeld("") {
		if o := m[h.Key()]; o == nil || o.ResourceVersion != h.ResourceVersion() || o.UID != h.UID() {
			w.t.Fatalf("%v is held at %q", h.Key(), h.ResourceVersion())
		}
	}
	st := s.FoldStats()
	if st.Open+st.Folded != len(m) || st.IndexEntries != len(m) { // each object has one value in one index
		w.t.Fatalf("%+v of %d objects", st, len(m))
	}
}

func (w *foldWorld) verifyIndex(s *Snapshot[*thing], m model, ix *Index[*thing]) {
	w.t.Helper()
	for v := range 6 {
		value := fmt.Sprint(v)
		want := m.where(func(o *thing) bool { return ix.has(o, value) })
		if !same(slices.Collect(s.ByIndex(ix, value)), want) || s.Count(ix, value) != len(want) {
			w.t.Fatalf("ByIndex(%s, %s) differs from the model", ix.Name(), value)
		}
		if !same(slices.Collect(s.Intersect(Match[*thing]{ix, value})), want) {
			w.t.Fatalf("Intersect(%s, %s) differs from the model", ix.Name(), value)
		}
	}
}

// TestFoldedModel runs random operations on a store whose objects fold, against a map.
func TestFoldedModel(t *testing.T) {
	testseed.Each(t, 4, func(t *testing.T, seed uint64) {
		w := newFoldWorld(t, seed)
		for range 50 {
			w.step()
			w.verify(w.writer.Store().Snapshot(), w.model)
			checkFree(t, w.writer)
			w.checkPacker()
		}
		for _, k := range w.kept {
			w.verify(k.snapshot, k.model)
		}
	})
}

// checkPacker fails the test unless everything that is counted while objects fold, change and open
// is what the newest snapshot has.
func (w *foldWorld) checkPacker() {
	w.t.Helper()
	f := w.writer.Store().Snapshot().folds
	var want fold.Stats
	need := map[*fold.Dictionary]bool{}
	count := func(e *folded[*thing]) {
		want.Objects++
		want.OpenedBytes += int64(e.packed.Len())
		want.PackedBytes += int64(e.packed.Size())
		want.HeapBytes += int64(e.packed.HeapSize())
		need[e.packed.Dictionary()] = true
	}
	for e := range f.entries.All() {
		if e != nil {
			count(e)
		}
	}
	if w.gather != nil {
		for i := range w.gather.items {
			if item := &w.gather.items[i]; item.own {
				count(item.folded)
			}
		}
	}
	delete(need, nil)
	got := f.packer.Stats()
	if got.Objects != want.Objects || got.OpenedBytes != want.OpenedBytes || got.PackedBytes != want.PackedBytes || got.HeapBytes != want.HeapBytes {
		w.t.Fatalf("the packer counts %+v, there are %+v", got, want)
	}
	if more := got.Dictionaries - len(need); more < 0 || more > 1 { // the current one may be unused
		w.t.Fatalf("%d dictionaries are counted, %d are needed", got.Dictionaries, len(need))
	}
	w.checkTables(f.folding)
}

// checkTables checks what is counted of opened objects and decoded templates.
func (w *foldWorld) checkTables(f *folding[*thing]) {
	w.t.Helper()
	opened, decoded := 0, int64(0)
	for i := range f.opened.shards {
		opened += len(f.opened.shards[i].objects)
	}
	for _, template := range f.templates.kept {
		decoded += f.templates.bytesOf(template)
		if !f.templates.needed(template) || template.KeptDecoded() == nil {
			w.t.Fatal("a template is kept that is not needed or not decoded")
		}
	}
	if got := f.opened.count.Load(); got != int64(opened) {
		w.t.Fatalf("%d opened objects are counted, the table has %d", got, opened)
	}
	if got := f.templates.size(); got != decoded {
		w.t.Fatalf("%d bytes of decoded templates are counted, there are %d", got, decoded)
	}
}

// churn is how many objects TestCountsDoNotDrift sets.
var churn = flag.Int("churn", 3000, "objects that TestCountsDoNotDrift sets")

// TestCountsDoNotDrift compares counts with what is there after many changes, folds, lists, and
// reads, with patches and without.
func TestCountsDoNotDrift(t *testing.T) {
	for name, codec := range map[string]codec.Codec[*thing]{"packed": thingCodec{}, "patches": newPatchingCodec(t)} {
		t.Run(name, func(t *testing.T) {
			w := newFoldWorldOf(t, testseed.Seed(t), codec)
			if name == "patches" {
				w.common = inCommon + inCommon
			}
			for step := 1; w.version < *churn; step++ {
				w.writer.Store().KeepTemplates(int64(w.rand.IntN(3)) * leastTemplates)
				w.step()
				if step%50 == 0 {
					w.writer.Store().Snapshot().folds.opened.tidy()
					w.checkPacker()
				}
			}
			w.kept = nil
			w.verify(w.writer.Store().Snapshot(), w.model)
			w.checkPacker()
			w.empty()
		})
	}
}

// empty removes everything, after which nothing is counted.
func (w *foldWorld) empty() {
	w.t.Helper()
	txn := w.writer.Begin()
	for k := range w.model {
		txn.Remove(k)
	}
	txn.Commit()
	w.checkPacker()
	if st := w.writer.Store().Snapshot().FoldStats(); st.Open+st.Folded+st.Unfoldable+st.IndexEntries != 0 || st.EncodedBytes+st.StaleBytes+st.TemplateBytes != 0 {
		w.t.Errorf("an empty store has %+v", st)
	}
}

// TestSampleOpen samples stores where all, some and few objects are open.
func TestSampleOpen(t *testing.T) {
	const things = 5000
	testseed.Each(t, 3, func(t *testing.T, seed uint64) {
		w := newFoldWorld(t, seed)
		for open := things; open > 10; open /= 7 {
			txn := w.writer.Begin()
			for i := range things {
				txn.Put(object.Key{Namespace: "a", Name: fmt.Sprint(i)}, newThing("a", fmt.Sprint(i), nil))
			}
			txn.Commit()
			var keys []object.Key
			for _, i := range w.rand.Perm(things)[open:] {
				keys = append(keys, object.Key{Namespace: "a", Name: fmt.Sprint(i)})
			}
			txn = w.writer.Begin()
			txn.Fold(w.writer.Store().PackKeys(keys, true))
			txn.Commit()
			sample := w.writer.Store().Snapshot().SampleOpen(300)
			if got, want := len(sample), min(300, open); got < want*9/10 || got >= 300+samplePage {
				t.Errorf("the sample of %d open objects has %d, want about %d", open, got, want)
			}
			seen := map[*thing]bool{}
			pages := map[int]int{}
			for _, o := range sample {
				n, _ := w.writer.Store().Snapshot().slot(object.KeyOf(o))
				if pages[int(n)/tree.PageSize]++; seen[o] || pages[int(n)/tree.PageSize] > samplePage {
					t.Fatalf("%s is there twice, or has %d neighbors with it", o.Name, pages[int(n)/tree.PageSize])
				}
				seen[o] = true
			}
		}
	})
}

// TestPackAgain has batches with their own dictionaries, and few objects left in them: repacking
// frees the dictionaries.
func TestPackAgain(t *testing.T) {
	const batch, batches = 500, 6
	w := newFoldWorld(t, testseed.Seed(t))
	lines := make([]string, batches*100)
	for i := range lines {
		lines[i] = fmt.Sprintf("%016x%016x", w.rand.Uint64(), w.rand.Uint64())
	}
	write := func(from, to, kind int) {
		txn := w.writer.Begin()
		for i := from; i < to; i++ {
			k := object.Key{Namespace: "a", Name: fmt.Sprintf("%05d", i)}
			o := w.thing(k)
			delete(o.Labels, "open")
			for range 40 {
				o.Annotations["text"] += lines[kind*100+w.rand.IntN(100)]
			}
			txn.Put(k, o)
			w.model[k] = o
		}
		txn.Commit()
	}
	apply := func(cold *Cold[*thing]) {
		txn := w.writer.Begin()
		txn.Fold(cold)
		txn.Commit()
	}
	for kind := range batches {
		write(kind*batch, (kind+1)*batch, kind)
		apply(w.writer.Store().PackCold(object.Key{Namespace: "a", Name: fmt.Sprintf("%05d", kind*batch)}, batch, true))
	}
	for kind := range batches - 1 { // most of a batch changes, and a few objects stay
		write(kind*batch+20, (kind+1)*batch, batches-1)
	}
	before := w.writer.Store().Snapshot().FoldStats()
	if before.StaleBytes == 0 {
		t.Fatalf("there are no stale dictionaries: the test does not test what it should")
	}
	held, _ := w.writer.Store().Snapshot().Get(object.Key{Namespace: "a", Name: "00003"})
	for next := (object.Key{}); ; {
		cold := w.writer.Store().PackAgain(next, 700)
		apply(cold)
		if next = cold.Next; next == (object.Key{}) {
			break
		}
	}
	after := w.writer.Store().Snapshot().FoldStats()
	t.Logf("before %+v, after %+v", before, after)
	if after.StaleBytes > 0 || after.Bytes >= before.Bytes || after.Folded != before.Folded {
		t.Errorf("packed again %+v, before %+v", after, before)
	}
	if again, _ := w.writer.Store().Snapshot().Get(object.KeyOf(held)); again != held {
		t.Error("an object that is held was opened once more")
	}
	w.verify(w.writer.Store().Snapshot(), w.model)
	w.checkPacker()
}
