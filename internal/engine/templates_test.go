package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tidings/tidings/internal/budget"
	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// similarSettings are a few objects of each of many kinds, of about 5 kB each. Those of a kind
// differ only in their names.
func similarSettings(r *rand.Rand, kinds, each int) (items []settings) {
	for kind := range kinds {
		var text strings.Builder
		for range 300 {
			fmt.Fprintf(&text, "%016x", r.Uint64())
		}
		for i := range each {
			o := namedSettings(0)
			o.Name, o.ResourceVersion, o.Data = fmt.Sprintf("%03d-%03d", kind, i), "5", map[string]string{"text": text.String()}
			items = append(items, o)
		}
	}
	return items
}

// TestDecodedTemplatesCount reads many objects that are patches: the decoded templates count, and
// few are kept if the budget is tight.
func TestDecodedTemplatesCount(t *testing.T) {
	const kinds, each = 50, 10 // so few that the table of opened objects is not tidied meanwhile
	inf := withBudget(1<<40, &answering{})
	b := inf.memory
	foldAll(inf, similarSettings(testseed.Rand(t), kinds, each))
	readAll := func() (templates int64) {
		runtime.GC() // or they are still open
		n := 0
		for k, o := range inf.store.Snapshot().All() {
			if n++; o.Name != k.Name || len(o.Data["text"]) != 300*16 {
				t.Fatalf("%v is %v", k, o)
			}
		}
		if n != kinds*each {
			t.Fatalf("%d objects", n)
		}
		return inf.store.Snapshot().FoldStats().TemplateBytes
	}
	now := b.Measure() // may have learned the size of decoded templates
	if used := b.Measure(); used != now {
		t.Errorf("%d bytes are used, and %d without a change", now, used)
	}
	inf.store.ScaleTemplates(1)
	rest := b.Measure() - inf.store.Snapshot().FoldStats().TemplateBytes // some were read already
	all := readAll()
	if used := b.Measure(); all < kinds*5000 || used != rest+all || b.Budget().Used() != used {
		t.Errorf("%d bytes are used, of which templates take %d, and %d without them", used, all, rest)
	}
	for _, room := range []int64{all / 2, 0, -rest / 2, 2 * all} {
		moveBudget(b, rest+room)
		b.Measure() // sets how many may be kept
		least := int64(64<<10) + 8<<10
		most := max(room, b.Budget().Bytes()/memory.RecentShare, least)
		if now := inf.store.Snapshot().FoldStats().TemplateBytes; now > most {
			t.Errorf("templates take %d bytes where there is room for %d", now, room)
		}
		now := readAll()
		if now > most || room > all && now != all {
			t.Errorf("templates take %d bytes of %d when all are read, where there is room for %d", now, all, room)
		}
		if used := b.Measure(); math.Abs(float64(used-rest-now)) > 1 {
			t.Errorf("%d bytes are used, of which templates take %d, and %d without them", used, now, rest)
		}
		if tight := b.Budget().IsTight(); tight && now > max(b.Budget().Bytes()/memory.RecentShare, least) {
			t.Errorf("templates take %d bytes, so that folding goes on for ever", now)
		}
	}
	b.ScaleTemplates()
	objects, _ := inf.store.SampleTemplates(kinds)
	counted := inf.store.Snapshot().FoldStats().TemplateBytes
	if size := budget.SizeWithoutText(objects); len(objects) < kinds/2 || math.Abs(float64(counted-size)) > 0.02*float64(size) {
		t.Errorf("%d templates take %d bytes besides their text, and %d are counted", len(objects), size, counted)
	}
	if now := inf.store.Snapshot().FoldStats().TemplateBytes; now > all/2 || now < kinds*100 {
		t.Errorf("templates take %d bytes, whose text was counted already: with it they are %d", now, all)
	}
	inf.Halt(nil)
	<-inf.done
}

// TestNeighborsInAFile saves open objects whose neighbors resemble each other. The file has the
// common part once, and loading decodes it once for several of them.
func TestNeighborsInAFile(t *testing.T) {
	const kinds, each = 7, 2*fold.TemplateUses + 10
	inf, pf := newSaved(t, t.TempDir(), false)
	items := similarSettings(testseed.Rand(t), kinds, each)
	odd := namedSettings(0)
	odd.Name, odd.ResourceVersion = "003-000-odd", "5" // in the middle of a kind
	txn := inf.writer.Begin()
	txn.Replace("", object.Items[settings](append(items, odd)), "5", false)
	txn.Commit()
	if err := save(t.Context(), inf, pf); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(pf.Path); err != nil || info.Size() > kinds*each*200 {
		t.Errorf("the file has %d bytes for %d objects: %v", info.Size(), len(items), err)
	}
	next, _ := newSaved(t, filepath.Dir(pf.Path), false)
	l, err := next.files.Load(t.Context(), pf)
	if err != nil {
		t.Fatal(err)
	}
	want, shared := inf.store.Snapshot(), map[uintptr]bool{}
	for key, got := range l.Objects().All() {
		if o, ok := want.Get(key); !ok || !reflect.DeepEqual(o, got) {
			t.Errorf("%v: %v, want %v", key, got, o)
		}
		shared[reflect.ValueOf(got.Data).Pointer()] = true
	}
	if n := l.Objects().Len(); n != len(items)+1 {
		t.Errorf("%d objects, want %d", n, len(items)+1)
	}
	if most := kinds*(each/fold.TemplateUses+2) + 1; len(shared) > most { // two goroutines may decode the same one
		t.Errorf("there are %d maps of %d kinds, want at most %d", len(shared), kinds, most)
	}
}

// TestListOfNeighbors lists objects of a few kinds that do not fit: the source decodes one of each
// kind, the others are decoded as its patches, and readers and handlers get the server's state.
// Some objects are too large for patches.
func TestListOfNeighbors(t *testing.T) {
	const kinds, each = 3, 2*fold.TemplateUses + 10
	synctest.Test(t, func(t *testing.T) {
		items := similarSettings(testseed.Rand(t), kinds, each)
		for i, o := range items {
			if i%13 > 10 {
				o.Data["more"] = strings.Repeat(o.Name, 70_000/len(o.Name))
			}
		}
		src := &counting{telling: telling{&answering{items: items}}}
		inf := withBudget(2_000_000, src)
		told := map[object.Key]settings{}
		_, err := inf.Subscribe(func(d object.Delta[settings]) { told[d.Key] = d.Object.DeepCopy() }, HandlerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var wanted []settings
		for _, o := range items {
			wanted = append(wanted, o.DeepCopy())
		}
		startIt(t, inf)
		src.items, items = nil, nil
		runtime.GC()                    // or they are still open
		if src.decoded > kinds*each/2 { // the first ones, before their size is known
			t.Errorf("%d of %d objects were decoded by the source", src.decoded, kinds*each)
		}
		st := inf.Status().Memory
		if st.Folded != kinds*each || st.Open != 0 || st.Problem != "" || len(told) != kinds*each {
			t.Errorf("%d were told of; %+v", len(told), st)
		}
		for _, want := range wanted {
			k := object.KeyOf(want)
			if got, ok := inf.store.Snapshot().Get(k); !ok || !reflect.DeepEqual(got, want) || !reflect.DeepEqual(told[k], want) {
				t.Fatalf("%v is not what was listed", k)
			}
		}
	})
}

// counting counts what the source decodes.
type counting struct {
	telling
	decoded int
}

func (s *counting) Self() any { return s }

func (s *counting) ListDecoded(
	ctx context.Context, opts source.ListOptions[settings], by intake.Decoder[settings],
	each func(intake.Received[settings]) error,
) (source.ListResult, error) {
	return s.telling.ListDecoded(ctx, opts, countingDecoder{by, &s.decoded}, each)
}

type countingDecoder struct {
	intake.Decoder[settings]
	decoded *int
}

func (d countingDecoder) Decode(e *intake.Encoded[settings]) (intake.Received[settings], error) {
	decode := e.Decode
	e.Decode = func(previous settings, previousData []byte) (settings, error) {
		*d.decoded++
		return decode(previous, previousData)
	}
	return d.Decoder.Decode(e)
}
