package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/tidings/tidings/internal/testseed"
)

// similarSettings are some objects of each of many kinds, of about 5 kB each. Those of a kind differ in their names only.
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

// TestDecodedTemplatesCount reads many objects that are patches: the templates that are kept decoded count, and they are few where the budget is tight.
func TestDecodedTemplatesCount(t *testing.T) {
	const kinds, each = 60, 10
	inf := withBudget(1<<40, &answering{})
	b := inf.budget
	g := inf.store.Gather(0)
	for _, o := range similarSettings(testseed.Rand(t), kinds, each) {
		g.Add(o)
	}
	g.Fold()
	txn := inf.writer.Begin()
	txn.Replace("", g, "5", false)
	g.Close()
	txn.Commit()
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
	rest := b.measure() - inf.store.Snapshot().FoldStats().TemplateBytes // some were read already
	all := readAll()
	if used := b.measure(); all < kinds*5000 || used != rest+all || b.memory.used.Load() != used {
		t.Errorf("%d bytes are used, of which templates take %d, and %d without them", used, all, rest)
	}
	for _, room := range []int64{all / 2, 0, -rest / 2, 2 * all} {
		b.memory.budget = rest + room
		b.measure() // says how many may be kept from now on
		least := int64(64<<10) + 8<<10
		most := max(room, b.memory.budget/recentShare, least)
		if now := inf.store.Snapshot().FoldStats().TemplateBytes; now > most {
			t.Errorf("templates take %d bytes where there is room for %d", now, room)
		}
		now := readAll()
		if now > most || room > all && now != all {
			t.Errorf("templates take %d bytes of %d when all are read, where there is room for %d", now, all, room)
		}
		if used := b.measure(); math.Abs(float64(used-rest-now)) > 1 {
			t.Errorf("%d bytes are used, of which templates take %d, and %d without them", used, now, rest)
		}
	}
	inf.Halt(nil)
	<-inf.done
}
