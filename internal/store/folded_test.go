package store

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// newFolding returns a store of n things that folds, with nothing folded yet.
func newFolding(t *testing.T, n int) (*Writer[*thing], []object.Key) {
	t.Helper()
	w, keys := newFoldingAlone(t, n)
	w.AddIndex("app", byLabel("app"))
	return w, keys
}

// newFoldingAlone is newFolding without an index.
func newFoldingAlone(t *testing.T, n int) (*Writer[*thing], []object.Key) {
	t.Helper()
	w := NewWriter[*thing](Options{OnOpenError: func(k object.Key, err error) { t.Errorf("%v: %v", k, err) }})
	w.UseCodec(thingCodec{}, reflect.TypeFor[*thing]())
	var keys []object.Key
	txn := w.Begin()
	for i := range n {
		o := plainThing(i)
		keys = append(keys, object.KeyOf(o))
		txn.Set(object.KeyOf(o), o)
	}
	txn.Commit()
	return w, keys
}

// inCommon is text that all things have, which packs best with a dictionary.
var inCommon = func() string {
	var b strings.Builder
	for i := range 150 {
		fmt.Fprintf(&b, "%x ", i*i*7919)
	}
	return b.String()
}()

func plainThing(i int) *thing {
	o := newThing("ns", fmt.Sprintf("n%03d", i), map[string]string{"app": fmt.Sprint(i % 3)})
	o.UID, o.ResourceVersion = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)), fmt.Sprint(i+1)
	o.Annotations = map[string]string{"text": inCommon + fmt.Sprint(i)}
	return o
}

// foldKeys folds the objects under the keys, and returns their number.
func foldKeys(w *Writer[*thing], all bool, keys ...object.Key) int {
	cold := w.Store().PackKeys(keys, all)
	txn := w.Begin()
	n := txn.Fold(cold)
	txn.Commit()
	return n
}

// TestIdentity keeps uids and versions as numbers where that loses nothing, and others as text.
func TestIdentity(t *testing.T) {
	const uid = "0a1b2c3d-4e5f-4000-8abc-def012345678"
	for _, tt := range []struct {
		uid, version string
		number       bool
	}{
		{uid, "123", true}, {"00000000-0000-0000-0000-000000000000", "0", true}, {uid, "18446744073709551615", true},
		{uid, "", false}, {uid, "007", false}, {uid, "x", false}, {uid, "18446744073709551616", false}, {"", "1", false}, {"x", "1", false},
		{uid[:35], "1", false}, {uid + "0", "1", false}, {"0A1b2c3d-4e5f-4000-8abc-def012345678", "1", false},
		{"0a1b2c3dx4e5f-4000-8abc-def012345678", "1", false}, {"0a1b2c3d-4e5fx4000-8abc-def012345678", "1", false},
		{"0a1b2c3d-4e5f-4000x8abc-def012345678", "1", false}, {"0a1b2c3d-4e5f-4000-8abcxdef012345678", "1", false},
		{"0a1b2c3d-4e5f-4000-8abc-def01234567g", "1", false}, {"0a1b2c3d-4e5f-4000-8abc-def0123456:8", "1", false},
		{"0a1b2c3d-4e5f-4000-8abc-def0123456/8", "1", false}, {"0a1b2c3d-4e5f-4000-8abc-def01234`678", "1", false},
	} {
		id := identityOf(types.UID(tt.uid), tt.version)
		if string(id.uidText()) != tt.uid || id.versionText() != tt.version {
			t.Errorf("%q %q became %q %q", tt.uid, tt.version, id.uidText(), id.versionText())
		}
		if (id.text == nil) != tt.number {
			t.Errorf("%q %q: kept as numbers: %t", tt.uid, tt.version, id.text == nil)
		}
	}
}

// TestPackKeys folds the requested objects, except those that are already folded, missing,
// unencodable, or recently read.
func TestPackKeys(t *testing.T) {
	w, keys := newFolding(t, 20)
	stubborn := plainThing(3)
	stubborn.Labels["open"] = ""
	txn := w.Begin()
	txn.Set(keys[3], stubborn)
	txn.Commit()
	if n := foldKeys(w, false, keys[0], keys[5], object.Key{Namespace: "ns", Name: "n0045"}, object.Key{Namespace: "zz", Name: "behind all"}); n != 2 {
		t.Errorf("%d folded, want 2", n)
	}
	if _, ok := w.Store().Snapshot().Get(keys[6]); !ok {
		t.Fatal("n006 is gone")
	}
	if n := foldKeys(w, false, keys[:10]...); n != 6 { // without 0, 3, 5 and 6
		t.Errorf("%d folded, want 6", n)
	}
	st := w.Store().Snapshot().FoldStats()
	if st.Folded != 8 || st.Open != 12 || st.Unfoldable != 1 || st.Reason != "ns/n003: it stays open" {
		t.Errorf("%+v", st)
	}
	if n := foldKeys(w, false, keys[3], keys[6]); n != 1 { // the read counts once
		t.Errorf("%d folded, want the one that was read before", n)
	}
	w.Store().Snapshot().Get(keys[7])
	w.Store().Snapshot().Get(keys[11])
	if n := foldKeys(w, true, keys...); n != 10 {
		t.Errorf("%d folded, want all that are left", n)
	}
	check(t, w.Store().Snapshot())
	for i, k := range keys {
		if o, ok := w.Store().Snapshot().Get(k); !ok || o.UID != plainThing(i).UID || o.ResourceVersion != plainThing(i).ResourceVersion {
			t.Errorf("%v is %v", k, o)
		}
	}
}

// TestDictionaryOfANeighbor leaves one object near an open one folded: its dictionary is used if it
// is at most two places away in the same leaf.
func TestDictionaryOfANeighbor(t *testing.T) {
	const at = 60
	for _, distance := range []int{-3, -2, -1, 1, 2, 3} {
		w, keys := newFolding(t, 500)
		cold := w.Store().PackCold(object.Key{}, 500, true)
		txn := w.Begin()
		txn.Fold(cold)
		for i := at - 3; i <= at+3; i++ {
			if i != at+distance {
				txn.Set(keys[i], plainThing(i))
			}
		}
		now := txn.Commit()
		for leaf := range now.keys.Runs(tree.Span{}) {
			i := slices.IndexFunc(leaf, func(it tree.Item) bool { return it.Key == keys[at] })
			if i >= 0 && (i < 3 || i+3 >= len(leaf)) {
				t.Fatalf("object %d is at %d of %d in its leaf", at, i, len(leaf))
			}
		}
		cursor := tree.NewCursor(now.keys)
		cursor.Seek(&tree.SortKey{Key: keys[at]})
		got := now.folds.dictionaryNear(&cursor)
		if want := distance >= -2 && distance <= 2; (got != nil) != want {
			t.Errorf("a neighbor at %d has a dictionary that serves: %t, want %t", distance, got != nil, want)
		}
		like := w.Store().PackKeys([]object.Key{keys[at]}, true)
		if used := like.entries[0].packed.Dictionary(); got != nil && used != got {
			t.Errorf("a neighbor at %d: packed with another dictionary", distance)
		}
	}
}

// TestGatheringFolds folds everything that can be folded at once, and counts what is open.
func TestGatheringFolds(t *testing.T) {
	w, _ := newFolding(t, 0)
	g := w.Store().Gather(0)
	const n = 2*packBatch + 7
	for i := range n {
		o := plainThing(i)
		if i%100 == 0 {
			o.Labels["open"] = ""
		}
		g.Add(o)
	}
	if g.Open() != n {
		t.Errorf("%d open of %d", g.Open(), n)
	}
	g.Fold()
	if want := (n + 99) / 100; g.Open() != want {
		t.Errorf("%d open after folding, want %d", g.Open(), want)
	}
	i := 0
	for h := range HeldOf(object.Collection[*thing](g)) {
		if want := plainThing(i); h.Key() != object.KeyOf(want) || h.UID() != want.UID || h.IsFolded() == (i%100 == 0) {
			t.Errorf("%d is %v, folded %t", i, h.Key(), h.IsFolded())
		}
		i++
	}
	if opens := w.Store().Snapshot().FoldStats().Opens; i != n || opens != 0 {
		t.Errorf("%d of %d iterated over, %d opened", i, n, opens)
	}
	g.Set(1, plainThing(1))
	if want := (n+99)/100 + 1; g.Open() != want {
		t.Errorf("%d open after one was set, want %d", g.Open(), want)
	}
	g.Remove(1)
	g.Remove(0)
	if want := (n+99)/100 - 1; g.Open() != want || g.Len() != n-2 {
		t.Errorf("%d of %d open after two were removed, want %d", g.Open(), g.Len(), want)
	}
	g.Close()
	if packed := g.folding.packer.Stats().Objects; packed != 0 {
		t.Errorf("%d packed objects are in the account of nobody", packed)
	}
	for h := range HeldOf[*thing](object.Items[*thing]{plainThing(1), plainThing(2)}) {
		if h.IsFolded() || h.Key() != object.KeyOf(h.Object()) {
			t.Errorf("%v of a list of open objects", h.Key())
		}
		break
	}
}

// TestRecentObjectsStayOpen: the latest objects read one by one stay open, as many as requested.
func TestRecentObjectsStayOpen(t *testing.T) {
	w, keys := newFolding(t, 10)
	foldKeys(w, true, keys...)
	s := w.Store()
	read := func(i int) (opens uint64) {
		before := s.Snapshot().FoldStats().Opens
		s.Snapshot().Get(keys[i])
		return s.Snapshot().FoldStats().Opens - before
	}
	expect := func(want int) {
		t.Helper()
		runtime.GC()
		if got := s.Snapshot().FoldStats().Recent; got != want {
			t.Errorf("%d are kept open, want %d", got, want)
		}
	}
	read(0)
	expect(0)
	s.KeepRecent(3)
	for i := range 9 {
		read(i)
		expect(min(i+1, 3))
	}
	for i := 6; i < 9; i++ {
		if read(i) != 0 {
			t.Errorf("%v, one of the latest, was not open", keys[i])
		}
	}
	s.KeepRecent(-1)
	expect(0)
	if read(9) != 1 {
		t.Error("a folded object was read without opening it")
	}
	expect(0)
}

// TestHeldObjectIsKeptOpenForReaders: an object that somebody has open, and that is read by key, stays open after that.
func TestHeldObjectIsKeptOpenForReaders(t *testing.T) {
	w, keys := newFolding(t, 3)
	s := w.Store()
	held, _ := s.Snapshot().Get(keys[0])
	foldKeys(w, true, keys...)
	s.KeepRecent(2)
	for range 3 {
		if o, _ := s.Snapshot().Get(keys[0]); o != held {
			t.Fatal("there are two objects of one version")
		}
	}
	held = nil
	runtime.GC()
	runtime.GC()
	s.Snapshot().Get(keys[0])
	if st := s.Snapshot().FoldStats(); st.Recent != 1 || st.Opens != 0 {
		t.Errorf("%d are kept open, after %d openings", st.Recent, st.Opens)
	}
	for _, key := range keys { // it goes, and comes back
		s.Snapshot().Get(key)
	}
	s.Snapshot().Get(keys[0])
	folds := s.Snapshot().folds
	if o, ok := folds.held(folds.at(0)); !ok || o == nil || s.Snapshot().FoldStats().Recent != 2 {
		t.Error("what was read last is not kept open")
	}
	if left := s.ForgetIdle(1); left != 2 { // they were read since the last pass
		t.Errorf("%d are left", left)
	}
	if left := s.ForgetIdle(1); left != 0 || s.Snapshot().folds.at(0).isKept() {
		t.Errorf("%d are left", left)
	}
}

// TestRecentHasOneStateOfAnObject: what changes and is read again and again does not pile up.
func TestRecentHasOneStateOfAnObject(t *testing.T) {
	w, keys := newFolding(t, 20)
	random := testseed.Rand(t)
	s := w.Store()
	for _, limit := range []int{5, 1000, 7} {
		s.KeepRecent(limit)
		latest := map[object.Key]*thing{} // as read, of the state that is current
		for range 500 {
			k := keys[random.IntN(len(keys))]
			switch random.IntN(8) {
			case 0:
				i := slices.Index(keys, k)
				txn := w.Begin()
				txn.Set(k, plainThing(i))
				txn.Commit()
				foldKeys(w, true, k)
				delete(latest, k)
			case 1:
				s.ForgetIdle(1 + random.IntN(3))
			default:
				latest[k], _ = s.Snapshot().Get(k)
			}
			r := &s.Snapshot().folds.recent
			if len(r.at) != len(r.objects) || len(r.objects) > min(limit, len(keys)) {
				t.Fatalf("%d objects, %d slots; the limit is %d", len(r.objects), len(r.at), limit)
			}
			for i, o := range r.objects {
				if r.at[o.slot] != i || !o.entry.isKept() {
					t.Fatalf("the object at %d is expected at %d; kept: %t", i, r.at[o.slot], o.entry.isKept())
				}
			}
		}
		for k, o := range latest {
			if now, _ := s.Snapshot().Get(k); now != o {
				t.Errorf("%v is another object", k)
			}
		}
	}
}

// TestListPutsRightWhatWasWrittenTo: somebody holds the opened object of a folded state, and has written to it. A list
// that brings the state once more makes that known, and readers get the new object.
func TestListPutsRightWhatWasWrittenTo(t *testing.T) {
	for _, written := range []bool{false, true} {
		w, keys := newFolding(t, 2)
		foldKeys(w, true, keys...)
		held, _ := w.Store().Snapshot().Get(keys[0])
		if written {
			held.Labels = map[string]string{"written": "to"}
		}
		txn := w.Begin()
		deltas := txn.Replace("", object.Items[*thing]{plainThing(0), plainThing(1)}, "100", false)
		txn.Commit()
		now, _ := w.Store().Snapshot().Get(keys[0])
		if !written && (len(deltas) != 0 || now != held) {
			t.Errorf("without a write: %v", deltas)
		}
		if !written {
			continue
		}
		if len(deltas) != 1 || deltas[0].Old != held || deltas[0].Object != now || now == held ||
			now.Labels["written"] != "" {
			t.Errorf("after a write: %v", deltas)
		}
	}
}

// TestEqualObjectsAreNotOpened lists known objects again: the encodings are compared, whichever side is folded.
func TestEqualObjectsAreNotOpened(t *testing.T) {
	for _, known := range []bool{false, true} {
		for _, listed := range []bool{false, true} {
			w, keys := newFolding(t, 30)
			if known {
				foldKeys(w, true, keys...)
			}
			g := w.Store().Gather(0)
			for i := range keys {
				o := plainThing(i)
				if i == 7 {
					o.Annotations = map[string]string{"a": "new default"}
				}
				g.Add(o)
			}
			if listed {
				g.Fold()
			}
			runtime.GC() // otherwise the objects are still open
			txn := w.Begin()
			deltas := txn.Replace("", g, "100", false)
			txn.Commit()
			if len(deltas) != 1 || deltas[0].Type != object.Replaced || deltas[0].Key != keys[7] {
				t.Errorf("known folded %t, listed folded %t: %d deltas, want the one with the same version and other contents", known, listed, len(deltas))
			}
			if opens := w.Store().Snapshot().FoldStats().Opens; opens > 2 {
				t.Errorf("known folded %t, listed folded %t: %d objects opened, want at most both states of one", known, listed, opens)
			}
		}
	}
}

// TestUseCodecRefuses a codec for other types, and one inside a transaction.
func TestUseCodecRefuses(t *testing.T) {
	refused := func(name string, use func(w *Writer[*thing])) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", name)
			}
		}()
		use(NewWriter[*thing](Options{}))
	}
	refused("a struct", func(w *Writer[*thing]) { w.UseCodec(thingCodec{}, reflect.TypeFor[thing]()) })
	refused("another pointer", func(w *Writer[*thing]) { w.UseCodec(thingCodec{}, reflect.TypeFor[*int]()) })
	refused("in a transaction", func(w *Writer[*thing]) {
		defer w.Begin().Abort()
		w.UseCodec(thingCodec{}, reflect.TypeFor[*thing]())
	})
}

// TestReplaceOfRepeatedObjects: of duplicate keys, adjacent or not, the newest counts, of equals the last.
func TestReplaceOfRepeatedObjects(t *testing.T) {
	at := func(version, name string) *thing {
		o := newThing("ns", name, nil)
		o.ResourceVersion = version
		return o
	}
	for _, versions := range [][]string{{"1", "2"}, {"2", "1"}, {"2", "2"}} {
		w := NewWriter[*thing](Options{})
		items := object.Items[*thing]{at("1", "a"), at(versions[0], "b"), at(versions[1], "b"), at("3", "c")}
		want := items[1]
		if versions[1] == "2" {
			want = items[2]
		}
		txn := w.Begin()
		deltas := txn.Replace("", items, "9", false)
		txn.Commit()
		got, _ := w.Store().Snapshot().Get(object.Key{Namespace: "ns", Name: "b"})
		if len(deltas) != 3 || w.Store().Snapshot().Len() != 3 || got != want {
			t.Errorf("versions %v: %d deltas, %d objects, b at %s", versions, len(deltas), w.Store().Snapshot().Len(), got.ResourceVersion)
		}
		check(t, w.Store().Snapshot())
	}
}

// TestListWithoutAVersionIsAPart: a namespace listed without a version belongs to the collection,
// whose version is then unknown.
func TestListWithoutAVersionIsAPart(t *testing.T) {
	w := NewWriter[*thing](Options{})
	txn := w.Begin()
	txn.Replace("a", object.Items[*thing]{}, "5", false)
	txn.Replace("b", object.Items[*thing]{}, "", false)
	s := txn.Commit()
	if got := s.ResourceVersion(); got != "" || s.ResourceVersionIn("a") != "5" || s.ResourceVersionIn("b") != "" {
		t.Errorf("version %q, %q in a, %q in b", got, s.ResourceVersionIn("a"), s.ResourceVersionIn("b"))
	}
}

// TestReadObjectsAreNotCold reads objects one by one: wherever they are, they are spared once.
func TestReadObjectsAreNotCold(t *testing.T) {
	w, keys := newFolding(t, 200)
	for _, k := range keys {
		w.Store().Snapshot().Get(k)
	}
	if n := foldKeys(w, false, keys...); n != 0 {
		t.Errorf("%d objects were folded though they were read", n)
	}
	if n := foldKeys(w, false, keys...); n != len(keys) {
		t.Errorf("%d objects were folded, want all", n)
	}
}

// TestFoldStats counts folded objects, and forgets the reason why an object could not be folded once it can.
func TestFoldStats(t *testing.T) {
	w, keys := newFolding(t, 200)
	stubborn := plainThing(3)
	stubborn.Labels["open"] = ""
	txn := w.Begin()
	txn.Set(keys[3], stubborn)
	txn.Commit()
	foldKeys(w, true, keys...)
	st := w.Store().Snapshot().FoldStats()
	if st.Folded != 199 || st.Unfoldable != 1 || st.Reason == "" {
		t.Errorf("%+v", st)
	}
	if low := int64(199 * 24); st.Bytes < low || st.Bytes > st.EncodedBytes+199*200+1<<18 {
		t.Errorf("%d bytes for %d encoded ones", st.Bytes, st.EncodedBytes)
	}
	txn = w.Begin()
	txn.Set(keys[3], plainThing(3))
	txn.Commit()
	if st := w.Store().Snapshot().FoldStats(); st.Unfoldable != 0 || st.Reason != "" {
		t.Errorf("%+v of objects that can all be folded", st)
	}
}

// TestBrokenObjects has folded objects that cannot be opened, whatever the decoder returns for them.
func TestBrokenObjects(t *testing.T) {
	errs := map[object.Key]error{}
	w := NewWriter[*thing](Options{OnOpenError: func(k object.Key, err error) { errs[k] = err }})
	w.UseCodec(thingCodec{}, reflect.TypeFor[*thing]())
	key := object.Key{Namespace: "ns", Name: "x"}
	g := w.Store().Gather(0)
	var packer fold.Packer
	g.AddPacked(key, "u", "1", packer.Pack([]byte("no thing"), nil))
	txn := w.Begin()
	txn.Replace("", g, "1", false)
	s := txn.Commit()
	if o, ok := s.Get(key); ok {
		t.Errorf("got %v", o)
	}
	if err := errs[key]; err == nil || errors.Is(err, errNoObject) {
		t.Errorf("reported %v, want what the codec says", err)
	}
	if h, ok := s.Held(key); !ok || h.UID() != "u" || h.ResourceVersion() != "1" {
		t.Errorf("held %v %t", h, ok)
	}
}

// TestAdvanceNeedsATransaction: it panics after the end of one.
func TestAdvanceNeedsATransaction(t *testing.T) {
	w := NewWriter[*thing](Options{})
	txn := w.Begin()
	txn.Commit()
	defer func() {
		if recover() == nil || w.Store().Snapshot().ResourceVersion() != "" {
			t.Error("a transaction that has ended goes on")
		}
	}()
	txn.Advance("", "5")
}

// TestWhoHoldsAnObjectGoesOnWithIt: if somebody holds an object while it is folded, in whatever
// way, every reader gets the same object.
func TestWhoHoldsAnObjectGoesOnWithIt(t *testing.T) {
	w, keys := newFolding(t, 60)
	held := map[object.Key]*thing{}
	check := func(how string) {
		t.Helper()
		runtime.GC()
		for k, o := range held {
			h, ok := w.Store().Snapshot().Held(k)
			if !ok || !h.IsFolded() {
				t.Fatalf("%s: %v is not folded", how, k)
			}
			if h.Object() != o {
				t.Errorf("%s: %v is another object than the one that is held", how, k)
			}
		}
	}
	for k, o := range w.Store().Snapshot().All() {
		held[k] = o
	}
	if folded := foldKeys(w, true, keys...); folded != len(keys) {
		t.Fatalf("%d of %d are folded", folded, len(keys))
	}
	check("folded later")

	txn := w.Begin()
	for _, k := range keys {
		next := held[k].DeepCopy()
		next.ResourceVersion = "1000"
		txn.PutCold(k, next, Encoding{})
		held[k] = next
	}
	txn.Commit()
	check("changed while folded")

	g := w.Store().Gather(0)
	for _, k := range keys {
		held[k] = held[k].DeepCopy()
		held[k].ResourceVersion = "2000"
		g.Add(held[k])
	}
	g.Fold()
	txn = w.Begin()
	txn.Replace("", g, "2000", false)
	txn.Commit()
	g.Close()
	check("listed")
}

// TestSilence: a list whose changes are not needed opens nothing, and returns nothing.
func TestSilence(t *testing.T) {
	for _, silent := range []bool{false, true} {
		w, keys := newFoldingAlone(t, 30)
		foldKeys(w, true, keys...)
		runtime.GC()
		g := w.Store().Gather(0)
		for i := range 20 { // ten are changed, ten are new, and twenty are deleted
			o := plainThing(20 + i)
			o.ResourceVersion = "100"
			g.Add(o)
		}
		g.Fold()
		runtime.GC()
		txn := w.Begin()
		if silent {
			txn.Silence()
		}
		changes := len(txn.Replace("", g, "100", false))
		txn.Commit()
		g.Close()
		runtime.GC()
		txn = w.Begin()
		if silent {
			txn.Silence()
		}
		changes += len(txn.Drop(""))
		txn.Commit()
		opens := w.Store().Snapshot().FoldStats().Opens
		if silent && (changes > 0 || opens > 0) {
			t.Errorf("%d changes are told, and %d objects were opened for them, though nobody wants to know", changes, opens)
		}
		if !silent && (changes != 40+20 || opens == 0) {
			t.Errorf("%d changes are told, and %d objects were opened for them", changes, opens)
		}
	}
}

// TestFoldedObjectsAreOmitted from the results of Replace and Drop if they are many, and not opened
// before somebody iterates over them. Open objects and replaced ones are not omitted.
func TestFoldedObjectsAreOmitted(t *testing.T) {
	for _, silent := range []bool{false, true} {
		w, keys := newFoldingAlone(t, 30)
		foldKeys(w, true, keys[:25]...)
		runtime.GC()
		txn := w.Begin()
		if txn.LeaveFolded(23); silent {
			txn.Silence()
		}
		another := plainThing(0)
		another.UID, another.ResourceVersion = types.UID("00000000-0000-4000-8000-000000000099"), "100"
		changes := txn.Replace("", object.Items[*thing]{another}, "100", false) // 24 folded ones and 5 open ones are gone
		removed := txn.Removed()
		if txn.Commit(); silent {
			if len(changes) != 0 || removed.Len() != 0 {
				t.Errorf("%d changes and %d removed objects despite Silence", len(changes), removed.Len())
			}
			continue
		}
		if len(changes) != 2+5 || removed.Len() != 24 || w.Store().Snapshot().Len() != 1 {
			t.Errorf("%d changes, %d removed, %d left", len(changes), removed.Len(), w.Store().Snapshot().Len())
		}
		before := w.Store().Snapshot().FoldStats().Opens
		for key, o := range Keys[*thing](removed).All() {
			if o != nil || !slices.Contains(keys, key) {
				t.Errorf("%v: %v", key, o)
			}
		}
		if opens := w.Store().Snapshot().FoldStats().Opens; opens != before || before != 1 { // for the replaced one
			t.Errorf("%d objects were opened, and %d before anybody looked", opens, before)
		}
		next := 1
		for key, o := range removed.All() {
			if want := plainThing(next); key != keys[next] || !reflect.DeepEqual(o, want) {
				t.Errorf("removed %v: %v", key, o)
			}
			next++
		}
		foldKeys(w, true, keys[0])
		txn = w.Begin()
		txn.LeaveFolded(0)
		changes = txn.Drop("")
		removed = txn.Removed()
		if txn.Abort(); len(changes) != 0 || removed.Len() != 1 {
			t.Errorf("dropped: %d changes, %d removed", len(changes), removed.Len())
		}
		txn = w.Begin()
		txn.LeaveFolded(1)
		if changes = txn.Drop(""); len(changes) != 1 || txn.Removed().Len() != 0 {
			t.Errorf("dropped where one may be opened: %d changes, %d removed", len(changes), txn.Removed().Len())
		}
		txn.Commit()
	}
}

// TestOmissionsAddUp: the limit of opened objects is for the whole transaction, and so is the
// result. What is opened is in order with the rest.
func TestOmissionsAddUp(t *testing.T) {
	w := NewWriter[*thing](Options{})
	w.UseCodec(thingCodec{}, reflect.TypeFor[*thing]())
	txn := w.Begin()
	var folded []object.Key
	for _, namespace := range []string{"a", "b", "c"} {
		for i := range 2 {
			o := plainThing(i)
			o.Namespace = namespace
			txn.Set(object.KeyOf(o), o)
		}
		folded = append(folded, object.Key{Namespace: namespace, Name: plainThing(0).Name})
	}
	txn.Commit()
	foldKeys(w, true, folded...)
	txn = w.Begin()
	txn.LeaveFolded(1)
	var names []string
	for _, namespace := range []string{"a", "b", "c"} {
		for _, d := range txn.Drop(namespace) {
			names = append(names, d.Key.String())
		}
	}
	removed := txn.Removed()
	txn.Commit()
	if want := []string{"a/n000", "a/n001", "b/n001", "c/n001"}; !slices.Equal(names, want) {
		t.Errorf("changes of %v, want %v", names, want)
	}
	var omitted []object.Key
	for key, o := range removed.All() {
		if omitted = append(omitted, key); object.KeyOf(o) != key {
			t.Errorf("%v is %v", key, o)
		}
	}
	if !slices.Equal(omitted, folded[1:]) {
		t.Errorf("%v are omitted, want %v", omitted, folded[1:])
	}
}

// TestFoldedDuplicatesOfAList are not counted once they are dropped.
func TestFoldedDuplicatesOfAList(t *testing.T) {
	w, _ := newFoldingAlone(t, 0)
	g := w.Store().Gather(0)
	for i := range 3 {
		o := plainThing(0)
		o.ResourceVersion = fmt.Sprint(10 + i)
		g.Add(o)
	}
	g.Fold()
	txn := w.Begin()
	txn.Replace("", g, "100", false)
	g.Close()
	s := txn.Commit()
	if n := s.folds.packer.Stats().Objects; n != 1 || s.Len() != 1 {
		t.Errorf("%d packed objects are counted for %d in the store", n, s.Len())
	}
}
