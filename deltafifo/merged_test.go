package deltafifo

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

func TestMerging(t *testing.T) {
	a1, a2, a3 := newThing("a", 1, 1), newThing("a", 1, 2), newThing("a", 1, 3)
	b4, b5, b6 := newThing("a", 2, 4), newThing("a", 2, 5), newThing("a", 2, 6)
	x := change(object.Added, newThing("x", 9, 9))
	initial := change(object.Added, a1)
	initial.Initial = true
	missed := change(object.Deleted, a2)
	missed.FinalStateUnknown = true
	resync := delta{Key: object.KeyOf(a1), Object: a1, Old: a1, Type: object.Sync}
	relisted := update(a1, a2)
	relisted.Type = object.Replaced
	rewound := update(a2, a1)
	rewound.Type = object.Replaced
	deleted := change(object.Deleted, a3)
	deleted.Old = a2
	created, removed := change(object.Added, a1), change(object.Deleted, a2)
	again, ended := change(object.Added, b4), change(object.Deleted, b6)
	for _, c := range []struct {
		in   []delta
		want string
	}{
		{[]delta{created, x, update(a1, a2)}, "Added:a/u1/2 Added:x/u9/9"},
		{[]delta{initial, update(a1, a2)}, "Added:a/u1/2+initial"},
		{[]delta{created, removed}, ""},
		{[]delta{created, x, removed}, "Added:x/u9/9"},
		{[]delta{x, created, removed, again}, "Added:x/u9/9 Added:a/u2/4"},
		{[]delta{created, x, removed, again}, "Added:x/u9/9 Added:a/u2/4"},
		{[]delta{update(a1, a2), x, update(a2, a3)}, "Updated:a/u1/3<1 Added:x/u9/9"},
		{[]delta{update(a1, a2), deleted}, "Deleted:a/u1/3<1"},
		{[]delta{update(a1, a2), deleted, again}, "Deleted:a/u1/3<1 Added:a/u2/4"},
		{[]delta{update(a1, a2), deleted, again, ended}, "Deleted:a/u1/3<1"},
		{[]delta{relisted, update(a2, a3)}, "Replaced:a/u1/3<1"},
		{[]delta{update(a1, a2), missed}, "Deleted:a/u1/2<1+missed"},
		{[]delta{update(a1, a3), update(a1, a2)}, "Updated:a/u1/3<1"},
		{[]delta{update(a1, a3), rewound}, "Updated:a/u1/1<1"},
		{[]delta{resync, update(a1, a2)}, "Updated:a/u1/2<1"},
		{[]delta{resync, removed}, "Deleted:a/u1/2<1"},
		{[]delta{created, resync}, "Added:a/u1/1"},
		{[]delta{missed, x, again}, "Deleted:a/u1/2+missed Added:a/u2/4 Added:x/u9/9"},
		{[]delta{removed, again, update(b4, b5)}, "Deleted:a/u1/2 Added:a/u2/5"},
		{[]delta{missed, again, ended}, "Deleted:a/u1/2+missed"},
		{[]delta{removed, again, ended, again}, "Deleted:a/u1/2 Added:a/u2/4"},
	} {
		var m merged[*thing]
		for i := range c.in {
			m.add(&c.in[i], time.Time{})
		}
		checkMerged(t, &m)
		if got := text(m.take(nil, 100)); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", text(c.in), got, c.want)
		}
		checkMerged(t, &m)
	}
}

// TestMergingKeys: the collections that a consumer of keys gets have no objects, so there are no versions to compare.
func TestMergingKeys(t *testing.T) {
	a1, a2 := newThing("a", 1, 1), newThing("a", 1, 2)
	listed := delta{Key: object.KeyOf(a1), Type: object.Added, Initial: true}
	for _, in := range [][]delta{{listed, update(a1, a2)}, {change(object.Added, a1), listed}, {listed, listed}} {
		var m merged[*thing]
		for i := range in {
			m.add(&in[i], time.Time{})
		}
		if out := m.take(nil, 10); len(out) != 1 || out[0].Key != listed.Key || out[0].Type != object.Added || out[0].Object != in[1].Object {
			t.Errorf("%+v became %+v", in, out)
		}
	}
}

// checkMerged checks the invariants of m.
func checkMerged(t testing.TB, m *merged[*thing]) {
	t.Helper()
	empty, live, deletions := 0, 0, 0
	for i, e := range m.entries[m.head:] {
		deletions += e.deletions()
		switch {
		case e.Type == 0:
			empty++
		case m.index[e.Key] != m.head+i:
			t.Fatalf("%v is at %d, not at %d", e.Key, m.head+i, m.index[e.Key])
		default:
			live++
		}
	}
	if deletions != m.deletions {
		t.Fatalf("%d entries delete something, counted are %d", deletions, m.deletions)
	}
	if empty != m.voids || live != len(m.index) || live != m.len() {
		t.Fatalf("%d void and %d pending entries, but empty %d, %d places, len %d", empty, live, m.voids, len(m.index), m.len())
	}
	if live > 0 && m.entries[m.head].Type == 0 {
		t.Fatal("the first entry is void")
	}
	for i, e := range m.entries[:cap(m.entries)] {
		if (i < m.head || i >= len(m.entries)) && !reflect.ValueOf(e).IsZero() {
			t.Fatalf("entry %d, which is not pending, keeps %v alive", i, e.Key)
		}
	}
}

func TestMergedOldest(t *testing.T) {
	var m merged[*thing]
	start := time.Now()
	mergedInto := 0
	for i, name := range []string{"a", "b", "a", "c"} {
		d := change(object.Sync, newThing(name, 1, 1))
		if m.add(&d, start.Add(time.Duration(i))) {
			mergedInto++
		}
	}
	if m.oldest() != start || m.len() != 3 || mergedInto != 1 {
		t.Errorf("oldest %v, length %d, merged %d", m.oldest().Sub(start), m.len(), mergedInto)
	}
	m.take(nil, 1)
	if m.oldest() != start.Add(1) {
		t.Errorf("oldest %v", m.oldest().Sub(start))
	}
}

// TestMergedForgetsWhatCameAndWent keeps one entry pending while many others are added and cancel out.
func TestMergedForgetsWhatCameAndWent(t *testing.T) {
	var m merged[*thing]
	d := change(object.Added, newThing("stays", 1, 1))
	m.add(&d, time.Time{})
	for i := range 100_000 {
		o := newThing(fmt.Sprint(i), i, i+1)
		came, went := change(object.Added, o), change(object.Deleted, o)
		m.add(&came, time.Time{})
		m.add(&went, time.Time{})
	}
	if m.len() != 1 || m.capacity() > smallBuffer {
		t.Errorf("%d entries in room for %d", m.len(), m.capacity())
	}
	checkMerged(t, &m)
}

func TestMergedGivesMemoryBack(t *testing.T) {
	for name, rest := range map[string]int{"emptied": 0, "never empty": 1} {
		var m merged[*thing]
		for i, d := range added(30_000) {
			m.add(&d, time.Time{})
			if i >= 10_000 {
				m.take(nil, max(0, m.len()-rest))
			}
			if i%1000 == 0 {
				checkMerged(t, &m)
			}
		}
		if m.capacity() > 2*smallBuffer {
			t.Errorf("%s: room for %d entries is left", name, m.capacity())
		}
	}
}

func TestWarmMergedDoesNotAllocate(t *testing.T) {
	var m merged[*thing]
	a, b := newThing("a", 1, 1), newThing("a", 1, 2)
	in := []delta{update(a, b), change(object.Sync, newThing("x", 2, 1)), update(a, b)}
	buf := make([]delta, 0, 4)
	allocs := testing.AllocsPerRun(1000, func() {
		for i := range in {
			m.add(&in[i], time.Time{})
		}
		buf = m.take(buf[:0], 1)
		buf = m.take(buf[:0], 9)
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestNothingIsKeptAlive adds and takes at random, so that pending entries are moved to the front now and then.
func TestNothingIsKeptAlive(t *testing.T) {
	random := testseed.Rand(t)
	var m merged[*thing]
	var l list[*thing]
	for i := range 3000 {
		o := newThing(fmt.Sprint(i), i, i+1)
		d := change(object.Added, o)
		m.add(&d, time.Time{})
		l.push(o)
		if random.IntN(10) > 4 {
			for range min(random.IntN(4), l.len()) {
				if got := l.pop(); m.take(nil, 1)[0].Object != got {
					t.Fatalf("not the same is first after %d additions", i)
				}
			}
		}
		checkMerged(t, &m)
		for at, o := range l.items[:cap(l.items)] {
			if o != nil && (at < l.head || at >= len(l.items)) {
				t.Fatalf("place %d of %d to %d keeps an object alive", at, l.head, len(l.items))
			}
		}
	}
}

// TestOneDeltaWithoutAVersion is a batch, whether the consumer keeps up or not.
func TestOneDeltaWithoutAVersion(t *testing.T) {
	for _, policy := range policies {
		q := New[*thing](Options{Policy: policy})
		for range 3 {
			q.Add(added(1), "")
			if b := pop(t, q); b.Len() != 1 || b.ResourceVersion != "" {
				t.Errorf("%s: %s", policy, describe(b))
			}
		}
		q.Add([]delta{change(object.Added, newThing("x", 5, 5))}, "") // while a batch is in flight
		if b := pop(t, q); b.Len() != 1 {
			t.Errorf("%s, behind: %s", policy, describe(b))
		}
	}
}
