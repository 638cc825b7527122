package store

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
)

// patchingCodec is the codec of a source, which makes patches. It cannot encode things with the label "open".
type patchingCodec struct{ *codec.Objects[*thing] }

func newPatchingCodec(t testing.TB) patchingCodec {
	t.Helper()
	c, err := codec.New[*thing](0)
	if err != nil {
		t.Fatal(err)
	}
	return patchingCodec{c}
}

func (c patchingCodec) Append(dst []byte, o *thing) ([]byte, error) {
	if _, ok := o.Labels["open"]; ok {
		return dst, errOpen
	}
	return c.Objects.Append(dst, o)
}

// faultyCodec occasionally fails to decode patches and their bases, in different ways.
type faultyCodec struct {
	patchingCodec
	mu   sync.Mutex
	rand *rand.Rand
}

var errFaulty = errors.New("it fails now and then")

func (c *faultyCodec) fault() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.IntN(4)
}

func (c *faultyCodec) DecodeBase(data []byte) (*thing, error) {
	switch c.fault() {
	case 0:
		return nil, nil
	case 1:
		return newThing("", "broken", nil), errFaulty
	}
	return c.patchingCodec.DecodeBase(data)
}

func (c *faultyCodec) DecodePatch(base *thing, patch []byte) (*thing, error) {
	switch c.fault() {
	case 0:
		return nil, nil
	case 1:
		return newThing("", "broken", nil), errFaulty
	}
	return c.patchingCodec.DecodePatch(base, patch)
}

func (c *faultyCodec) DecodeNextPatch(base *thing, patch []byte, other *thing, otherPatch []byte) (*thing, error) {
	switch c.fault() {
	case 0:
		return nil, nil
	case 1:
		return newThing("", "broken", nil), errFaulty
	}
	return c.patchingCodec.DecodeNextPatch(base, patch, other, otherPatch)
}

// TestFoldedModelWithPatches is TestFoldedModel with mostly patches, which some codecs occasionally fail to decode.
func TestFoldedModelWithPatches(t *testing.T) {
	most, nexts := int64(0), 0
	for _, faulty := range []bool{false, true} {
		testseed.Each(t, 2, func(t *testing.T, seed uint64) {
			var codec codec.Codec[*thing] = newPatchingCodec(t)
			if faulty {
				codec = &faultyCodec{patchingCodec: newPatchingCodec(t), rand: rand.New(rand.NewPCG(seed, 1))}
			}
			w := newFoldWorldOf(t, seed, codec)
			w.common = inCommon + inCommon
			for range 40 {
				w.writer.Store().KeepTemplates(int64(w.rand.IntN(3)) * leastTemplates)
				w.step()
				w.letGo()
				w.verify(w.writer.Store().Snapshot(), w.model)
				checkFree(t, w.writer)
				w.checkPacker()
				most = max(most, w.writer.Store().Snapshot().FoldStats().TemplateBytes)
			}
			for _, k := range w.kept {
				w.verify(k.snapshot, k.model)
			}
			nexts += w.nexts
		})
	}
	if most == 0 || nexts == 0 {
		t.Errorf("patches took %d bytes opened, and %d changes were decoded beside others: the test does not test what it should", most, nexts)
	}
}

// letGo makes the model hold none of the objects that the store opened.
func (w *foldWorld) letGo() {
	for k, o := range w.model {
		w.model[k] = o.DeepCopy()
	}
	for i := range w.kept {
		for k, o := range w.kept[i].model {
			w.kept[i].model[k] = o.DeepCopy()
		}
	}
	runtime.GC()
}

// podStore returns a store of pods folded from a list, many of them as patches.
func podStore(t testing.TB, n int) (*Writer[*corev1.Pod], map[object.Key]*corev1.Pod) {
	t.Helper()
	codec, err := codec.New[*corev1.Pod](0)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter[*corev1.Pod](Options{
		OnOpenError: func(k object.Key, err error) { t.Errorf("%v: %v", k, err) },
		OnStrayPart: func(k object.Key) { t.Errorf("%v: somebody is said to have written to it", k) },
	})
	w.UseCodec(codec, reflect.TypeFor[*corev1.Pod]())
	pods := map[object.Key]*corev1.Pod{}
	g := w.Store().Gather(n)
	for _, pod := range wiretest.Pods(n, 1) {
		pods[object.KeyOf(pod)] = pod
		g.Add(pod.DeepCopy())
	}
	g.Fold()
	txn := w.Begin()
	txn.Replace("", g, "1", false)
	g.Close()
	txn.Commit()
	runtime.GC() // otherwise the pods are still open
	if patches(w) < n/4 {
		t.Fatalf("%d of %d pods are patches: the test does not test what it should", patches(w), n)
	}
	return w, pods
}

// patches returns how many objects are patches.
func patches[T object.Object](w *Writer[T]) (n int) {
	s := w.Store().Snapshot()
	cursor := tree.NewCursor(s.keys)
	for cursor.Seek(&tree.SortKey{}); !cursor.Done(); cursor.Next() {
		if e := s.folds.at(cursor.Item().Slot); e != nil {
			if _, _, ok, _ := e.packed.Patch(); ok {
				n++
			}
		}
	}
	return n
}

// TestPodsAsPatches opens pods in all ways: they equal those that were folded, and are one object
// while somebody holds them.
func TestPodsAsPatches(t *testing.T) {
	w, pods := podStore(t, 500)
	s := w.Store().Snapshot()
	var held []*corev1.Pod
	for round := range 2 { // first one by one, and then in order
		read := func(k object.Key, o *corev1.Pod) {
			if !apiequality.Semantic.DeepEqual(o, pods[k]) {
				t.Fatalf("round %d: %v is another pod", round, k)
			}
			if again, _ := s.Get(k); again != o {
				t.Fatalf("round %d: %v is two objects", round, k)
			}
			held = append(held, o)
		}
		if round == 0 {
			for k := range pods {
				o, _ := s.Get(k)
				read(k, o)
			}
		} else {
			for k, o := range s.All() {
				read(k, o)
			}
		}
		if len(held) != len(pods) {
			t.Fatalf("round %d: %d pods", round, len(held))
		}
		held = nil
		runtime.GC()
	}
	if st := s.FoldStats(); st.TemplateBytes == 0 || st.TemplateBytes > leastTemplates {
		t.Errorf("decoded templates take %d bytes", st.TemplateBytes)
	}
}

// TestPatchesReadAndWrittenAtOnce runs readers of all kinds while a writer changes, folds and repacks.
func TestPatchesReadAndWrittenAtOnce(t *testing.T) {
	w, pods := podStore(t, 300)
	seed := testseed.Seed(t)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for reader := range 3 {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(reader)))
			keys := keysOf(pods)
			for {
				select {
				case <-done:
					return
				default:
				}
				w.Store().KeepTemplates(int64(r.IntN(4)) * leastTemplates)
				s, k := w.Store().Snapshot(), keys[r.IntN(len(keys))]
				if o, ok := s.Get(k); !ok || o.UID != pods[k].UID || !apiequality.Semantic.DeepEqual(o.Spec, pods[k].Spec) {
					t.Errorf("%v is another pod", k)
				}
				if reader == 0 {
					for key, o := range s.Namespace(k.Namespace) {
						if want := pods[key]; o.UID != want.UID || !apiequality.Semantic.DeepEqual(o.Status, want.Status) {
							t.Errorf("%v is another pod", key)
						}
					}
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(seed, 100))
	keys := keysOf(pods)
	for range 20 {
		txn := w.Begin()
		for range r.IntN(20) {
			k := keys[r.IntN(len(keys))]
			txn.Set(k, pods[k].DeepCopy())
		}
		txn.Commit()
		for _, cold := range []*Cold[*corev1.Pod]{
			w.Store().PackCold(object.Key{}, 1000, true), w.Store().PackAgain(object.Key{}, 1000), w.Store().PackTogether(keys[r.IntN(len(keys))], 100),
		} {
			txn = w.Begin()
			txn.Fold(cold)
			txn.Commit()
		}
		if r.IntN(8) == 0 {
			runtime.GC()
		}
	}
	close(done)
	readers.Wait()
	for k, want := range pods {
		if o, _ := w.Store().Snapshot().Get(k); !apiequality.Semantic.DeepEqual(o, want) {
			t.Errorf("%v is another pod in the end", k)
		}
	}
}

func keysOf[T any](objects map[object.Key]T) (keys []object.Key) {
	for k := range objects {
		keys = append(keys, k)
	}
	return keys
}

// TestPackedArrivals has objects packed elsewhere: several goroutines open them, each with its own codec.
func TestPackedArrivals(t *testing.T) {
	from, pods := podStore(t, 300)
	shared, _ := codec.New[*corev1.Pod](0)
	w := NewWriter[*corev1.Pod](Options{})
	w.UseCodec(shared, reflect.TypeFor[*corev1.Pod]())
	g, s := w.Store().Gather(0), from.Store().Snapshot()
	cursor := tree.NewCursor(s.keys)
	for cursor.Seek(&tree.SortKey{}); !cursor.Done(); cursor.Next() {
		e := s.folds.at(cursor.Item().Slot)
		g.AddPacked(cursor.Item().Key, e.uidText(), e.versionText(), e.packed)
	}
	var opening sync.WaitGroup
	for i := 0; i < len(pods); i += 100 {
		opening.Go(func() {
			own, _ := codec.New[*corev1.Pod](0)
			objects, err := g.OpenPacked(i, i+100, own)
			if err != nil {
				t.Error(err)
			}
			for _, o := range objects {
				if !apiequality.Semantic.DeepEqual(o, pods[object.KeyOf(o)]) {
					t.Errorf("%v is another pod", object.KeyOf(o))
				}
			}
		})
	}
	opening.Wait()
	if _, err := g.OpenPacked(0, 1, strayPods{shared}); !errors.Is(err, errOtherObject) {
		t.Errorf("an object that is another one opens with the error %v", err)
	}
	g.Close()
	if st := w.Store().Snapshot().folds.packer.Stats(); st.Objects != 0 || st.Dictionaries > 1 {
		t.Errorf("%+v of objects that did not come into the store", st)
	}
}

// strayPods decodes patches to different objects.
type strayPods struct{ *codec.Objects[*corev1.Pod] }

func (c strayPods) DecodePatch(base *corev1.Pod, patch []byte) (*corev1.Pod, error) {
	o, err := c.Objects.DecodePatch(base, patch)
	if err == nil {
		o.Name = "other"
	}
	return o, err
}

func (c strayPods) Decode(data []byte, previous *corev1.Pod) (*corev1.Pod, error) {
	return &corev1.Pod{}, nil
}

// TestStrayWritesToPatches makes a forbidden write to an object: it shows in few others, and not in those opened later.
func TestStrayWritesToPatches(t *testing.T) {
	w, n := newFoldWorldOf(t, 1, newPatchingCodec(t)), 200
	var keys []object.Key
	g := w.writer.Store().Gather(n)
	for i := range n {
		o := plainThing(i)
		o.Annotations = map[string]string{"text": inCommon}
		keys = append(keys, object.KeyOf(o))
		g.Add(o)
	}
	g.Fold()
	txn := w.writer.Begin()
	txn.Replace("", g, "1", false)
	g.Close()
	s := txn.Commit()
	runtime.GC() // otherwise the objects are still open
	if got := patches(w.writer); got < n {
		t.Fatalf("%d of %d objects are patches", got, n)
	}
	var held []*thing
	for len(held) < 3 { // the first is decoded alone
		o, _ := s.Get(keys[len(held)])
		held = append(held, o)
	}
	held[2].Annotations["text"] = "stray"
	spoiled := 0
	for i, k := range keys {
		o, _ := s.Get(k)
		if held = append(held, o); o.Annotations["text"] != "stray" {
			continue
		}
		if spoiled++; i > fold.TemplateUses+3 {
			t.Errorf("the stray write shows in %s", o.Name)
		}
	}
	if spoiled < 2 || spoiled > fold.TemplateUses+1 {
		t.Errorf("the stray write shows in %d objects, want some, and at most %d with that itself", spoiled, fold.TemplateUses+1)
	}
	runtime.KeepAlive(held)
}

// TestStrayPartsAreFound when an object that has them is checked: readers then get it, and those
// opened later, as they should be.
func TestStrayPartsAreFound(t *testing.T) {
	w, pods := podStore(t, 500)
	s := w.Store().Snapshot()
	of := map[*fold.Dictionary][]object.Key{}
	var keys []object.Key // of the objects of one template
	for k := range pods {
		if h, _ := s.Held(k); h.IsPatch() {
			template := h.folded.packed.Dictionary()
			if of[template] = append(of[template], k); len(of[template]) > len(keys) {
				keys = of[template]
			}
		}
	}
	var found []object.Key
	s.folds.onStrayPart = func(k object.Key) { found = append(found, k) }
	var held []*corev1.Pod
	get := func(i int) *corev1.Pod {
		o, _ := s.Get(keys[i])
		held = append(held, o)
		return o
	}
	for i := range 3 { // the first is decoded alone
		get(i)
	}
	held[2].Spec.Tolerations[0].Key = "stray"
	if o := get(3); o.Spec.Tolerations[0].Key != "stray" || len(found) > 0 {
		t.Fatalf("the objects do not have the tolerations in common, or %v were found: the test does not test what it should", found)
	}
	s.folds.opens.Store(checkEvery - 1)
	for i := 4; i < 6; i++ {
		if o := get(i); o.Spec.Tolerations[0].Key != pods[keys[i]].Spec.Tolerations[0].Key {
			t.Errorf("%v tolerates %q", keys[i], o.Spec.Tolerations[0].Key)
		}
	}
	if len(found) != 1 || found[0] != keys[4] {
		t.Errorf("found %v, want %v", found, keys[4])
	}
	runtime.KeepAlive(held)
}

// TestNoTemplatesAreLeft reads all objects, so that their templates are kept decoded, and then
// removes them, one by one or all at once.
func TestNoTemplatesAreLeft(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		w, pods := podStore(t, 500)
		w.Store().KeepTemplates(1 << 30)
		for range w.Store().Snapshot().All() {
		}
		if st := w.Store().Snapshot().FoldStats(); st.TemplateBytes == 0 {
			t.Fatal("no templates are decoded: the test does not test what it should")
		}
		f := w.Store().Snapshot().folds.folding
		if atOnce {
			txn, g := w.Begin(), w.Store().Gather(0)
			txn.Replace("", g, "2", false)
			g.Close()
			txn.Commit()
		}
		for k := range pods {
			txn := w.Begin()
			txn.Delete(k)
			txn.Commit()
		}
		if st := w.Store().Snapshot().FoldStats(); st.TemplateBytes != 0 || len(f.templates.kept) > 0 {
			t.Errorf("%d bytes in %d templates of objects that are gone are kept decoded", st.TemplateBytes, len(f.templates.kept))
		}
	}
}

// newTemplates returns templates of any size.
func newTemplates(t *testing.T, r *rand.Rand, n int) []*fold.Dictionary {
	t.Helper()
	out := make([]*fold.Dictionary, n)
	for i := range out {
		size := r.IntN(1 << (1 + r.IntN(16)))
		d, err := fold.ParseDictionary(append([]byte{0xff, 0xff}, make([]byte, size)...))
		if err != nil {
			t.Fatal(err)
		}
		out[i] = d
	}
	return out
}

// check counts the kept templates.
func (t *templates) check(tb testing.TB, all []*fold.Dictionary) {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	kept, bytes := map[*fold.Dictionary]bool{}, int64(0)
	for _, d := range t.kept {
		if kept[d] {
			tb.Fatal("a template is kept twice")
		}
		kept[d] = true
		bytes += t.bytesOf(d)
	}
	if bytes != t.bytes {
		tb.Fatalf("%d bytes are counted, %d are kept", t.bytes, bytes)
	}
	if most := max(t.limit, leastTemplates); bytes > most && len(kept) > 1 {
		tb.Fatalf("%d bytes in %d templates are over the limit of %d", bytes, len(kept), most)
	}
	for _, d := range all {
		if _, decoded := d.UseDecoded(); decoded != kept[d] {
			tb.Fatalf("a template is decoded: %t, and kept: %t", decoded, kept[d])
		}
	}
}

func needsAll(*fold.Dictionary) bool { return true }

// TestTemplatesAreBounded keeps templates at random, and changes the limit.
func TestTemplatesAreBounded(t *testing.T) {
	testseed.Each(t, 3, func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		all := newTemplates(t, r, 60)
		kept := templates{root: int64(r.IntN(2000)), needed: needsAll}
		kept.check(t, all)
		for range 600 {
			d := all[r.IntN(len(all))]
			switch r.IntN(20) {
			case 0:
				kept.resize(int64(r.IntN(16 * leastTemplates)))
			case 1, 2:
				kept.drop(d)
			case 3:
				n := r.IntN(20)
				kept.setScale(1)
				sample, guessed := kept.sample(n)
				if len(sample) != min(n, len(kept.kept)) || guessed < 0 || guessed > kept.size() {
					t.Fatalf("%d templates of %d are in the sample, and %d bytes of %d", len(sample), n, guessed, kept.size())
				}
				kept.setScale(0.5 + r.Float64())
			default:
				if kept.keep(d, "object"); kept.size() < kept.bytesOf(d) {
					t.Fatal("the latest template is not kept")
				}
				if object, _ := d.UseDecoded(); object != "object" {
					t.Fatal("the latest template is not decoded")
				}
			}
			kept.check(t, all)
		}
		kept.resize(-1)
		kept.check(t, all)
	})
}

// TestIdleTemplatesGo: decoded templates are kept, used, and passed over at random. Those go that as many passes in a
// row found unused as a pass asks for, and no others.
func TestIdleTemplatesGo(t *testing.T) {
	testseed.Each(t, 3, func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		all := newTemplates(t, r, 40)
		kept := templates{needed: needsAll, limit: math.MaxInt64}
		used, idle := map[*fold.Dictionary]bool{}, map[*fold.Dictionary]int{}
		for range 2000 {
			d := all[r.IntN(len(all))]
			switch n := r.IntN(30); {
			case n == 0:
				passes := 1 + r.IntN(4)
				for d := range idle {
					if idle[d]++; used[d] {
						idle[d] = 0
					}
					if idle[d] >= passes {
						delete(idle, d)
					}
				}
				clear(used)
				if left := kept.forgetIdle(passes); left != len(idle) {
					t.Fatalf("%d templates are left, want %d", left, len(idle))
				}
				bytes := int64(0)
				for d := range idle {
					bytes += kept.bytesOf(d)
				}
				if kept.size() != bytes {
					t.Fatalf("%d bytes are counted, %d are kept", kept.size(), bytes)
				}
			case n == 1:
				kept.drop(d)
				delete(idle, d)
			case n < 5:
				if _, ok := idle[d]; !ok {
					idle[d] = 0
				}
				kept.keep(d, "object")
				fallthrough
			default:
				_, ok := idle[d]
				if object, _ := d.UseDecoded(); (object != nil) != ok {
					t.Fatalf("a template is kept: %t, want %t", object != nil, ok)
				}
				used[d] = true
			}
		}
	})
}

// TestTemplatesAtOnce keeps templates from several goroutines, while others read them and change the limit.
func TestTemplatesAtOnce(t *testing.T) {
	seed := testseed.Seed(t)
	all := newTemplates(t, rand.New(rand.NewPCG(seed, 0)), 40)
	kept := templates{needed: needsAll}
	var users sync.WaitGroup
	for user := range 4 {
		users.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(user)))
			for i := range 2000 {
				d := all[r.IntN(len(all))]
				if object, _ := d.UseDecoded(); object == nil {
					kept.keep(d, fmt.Sprint(user, i))
				}
				if i%50 == 0 {
					kept.resize(int64(r.IntN(16 * leastTemplates)))
				}
				if i%7 == 0 {
					kept.drop(all[r.IntN(len(all))])
				}
				if kept.size() < 0 {
					t.Error("fewer than no bytes are kept")
				}
			}
		})
	}
	users.Wait()
	kept.check(t, all)
}

// TestTemplatesMeasuredByTwoAtOnce measures the decoded templates twice at a time: both get the
// same result, and measuring does not count as use of a template.
func TestTemplatesMeasuredByTwoAtOnce(t *testing.T) {
	w, _ := podStore(t, 100)
	s := w.Store()
	s.KeepTemplates(1 << 20)
	for range s.Snapshot().All() { // decodes the templates
	}
	first, guessed := s.SampleTemplates(1000)
	for range fold.TemplateUses {
		if again, same := s.SampleTemplates(1000); len(first) == 0 || len(again) != len(first) || same != guessed {
			t.Fatalf("%d templates count for %d bytes, then %d for %d", len(first), guessed, len(again), same)
		}
	}
	for range 2 {
		s.ScaleTemplates(0.5)
		if now := s.Snapshot().FoldStats().TemplateBytes; now < guessed/2-int64(len(first)) || now > guessed/2 {
			t.Errorf("templates take %d bytes, where half of %d is wanted", now, guessed)
		}
	}
	s.ScaleTemplates(1)
	if now := s.Snapshot().FoldStats().TemplateBytes; now != guessed {
		t.Errorf("templates take %d bytes of %d", now, guessed)
	}
}

// TestTemplatesOfOldSnapshots reads objects that only an old snapshot has: their templates are not
// kept decoded, since nothing would drop them.
func TestTemplatesOfOldSnapshots(t *testing.T) {
	codec := newPatchingCodec(t)
	w := newFoldWorldOf(t, 1, codec).writer
	w.Store().KeepTemplates(1 << 20)
	objects := neighborThings(10, 8)
	listNeighbors(t, w, codec, objects, func(*Gathering[*thing], int) {})
	old := w.Store().Snapshot()
	txn := w.Begin()
	for _, o := range objects {
		txn.Remove(object.KeyOf(o))
	}
	txn.Commit()
	runtime.GC() // otherwise the objects are still open
	for _, o := range objects {
		if got, ok := old.Get(object.KeyOf(o)); !ok || !reflect.DeepEqual(got, o) {
			t.Fatalf("%v is %v", o, got)
		}
	}
	if st := w.Store().Snapshot().FoldStats(); st.Opens == 0 || st.TemplateBytes != 0 {
		t.Errorf("%+v of no objects", st)
	}
}

// TestStandInsHaveNoNextState: the stand-in of an object that cannot be opened is not taken for the object.
func TestStandInsHaveNoNextState(t *testing.T) {
	w, _ := podStore(t, 100)
	for h := range w.Store().Snapshot().AllHeld("") {
		if !h.IsPatch() {
			continue
		}
		encoded, err := h.folded.packed.Open(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, ok := h.DecodeNext(h.standIn(), encoded); ok {
			t.Fatalf("%v has a state that follows that of a stand-in", h.Key())
		}
		for _, before := range []*corev1.Pod{h.Object(), nil} {
			if next, _, ok := h.DecodeNext(before, encoded); !ok || object.KeyOf(next) != h.Key() {
				t.Fatalf("%v has no state that follows %v: %v", h.Key(), before, next)
			}
		}
	}
}

// TestListedAndLost: a folded object that the store loses after a list has referred to it is
// counted again when the list puts it back.
func TestListedAndLost(t *testing.T) {
	w := newFoldWorld(t, 1)
	g := w.writer.Store().Gather(0)
	for i := range 5 {
		g.Add(plainThing(i))
	}
	g.Fold()
	replace := func(g *Gathering[*thing]) *Snapshot[*thing] {
		txn := w.writer.Begin()
		txn.Replace("", g, "1", false)
		g.Close()
		return txn.Commit()
	}
	s := replace(g)
	g = w.writer.Store().Gather(0)
	for h := range s.AllHeld("") {
		g.AddHeld(h)
	}
	txn := w.writer.Begin()
	txn.Remove(g.Key(2))
	txn.Commit()
	w.checkPacker()
	if s = replace(g); s.FoldStats().Folded != 5 {
		t.Errorf("%+v", s.FoldStats())
	}
	w.checkPacker()
}

// TestFoldsWhatWasReplaced: objects that replace folded ones of a Gathering, or move to their
// places, are folded with the next ones.
func TestFoldsWhatWasReplaced(t *testing.T) {
	g := newFoldWorld(t, 1).writer.Store().Gather(0)
	defer g.Close()
	for i := range 4 {
		g.Add(plainThing(i))
	}
	g.Fold()
	g.Set(1, plainThing(5))
	if g.Open() != 1 {
		t.Errorf("%d objects are open, one was set", g.Open())
	}
	if g.Fold(); g.Open() != 0 {
		t.Errorf("%d objects stayed open after one was set", g.Open())
	}
	g.Add(plainThing(6))
	g.Remove(0)
	if g.Fold(); g.Open() != 0 || g.Len() != 4 {
		t.Errorf("%d of %d objects stayed open after one was removed", g.Open(), g.Len())
	}
}
