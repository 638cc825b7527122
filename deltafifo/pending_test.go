package deltafifo

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tidings/tidings/object"
)

func TestPendingMerges(t *testing.T) {
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
	added, deleted := change(object.Added, a1), change(object.Deleted, a2)
	again, ended := change(object.Added, b4), change(object.Deleted, b6)
	for _, c := range []struct {
		in   []delta
		want string
	}{
		{[]delta{added, x, update(a1, a2)}, "Added:a/u1/2 Added:x/u9/9"},
		{[]delta{initial, update(a1, a2)}, "Added:a/u1/2+initial"},
		{[]delta{added, deleted}, ""},
		{[]delta{added, x, deleted}, "Added:x/u9/9"},
		{[]delta{x, added, deleted, again}, "Added:x/u9/9 Added:a/u2/4"},
		{[]delta{added, x, deleted, again}, "Added:x/u9/9 Added:a/u2/4"},
		{[]delta{update(a1, a2), x, update(a2, a3)}, "Updated:a/u1/3<1 Added:x/u9/9"},
		{[]delta{relisted, update(a2, a3)}, "Replaced:a/u1/3<1"},
		{[]delta{update(a1, a2), missed}, "Deleted:a/u1/2+missed"},
		{[]delta{resync, update(a1, a2)}, "Updated:a/u1/2<1"},
		{[]delta{resync, deleted}, "Deleted:a/u1/2"},
		{[]delta{added, resync}, "Added:a/u1/1"},
		{[]delta{missed, x, again}, "Deleted:a/u1/2+missed Added:a/u2/4 Added:x/u9/9"},
		{[]delta{deleted, again, update(b4, b5)}, "Deleted:a/u1/2 Added:a/u2/5"},
		{[]delta{missed, again, ended}, "Deleted:a/u1/2+missed"},
		{[]delta{deleted, again, ended, again}, "Deleted:a/u1/2 Added:a/u2/4"},
		{[]delta{change(object.Bookmark, nothing)}, ""},
	} {
		var p Pending[*thing]
		for _, d := range c.in {
			p.Push(d, time.Time{})
		}
		if got := text(p.Take(nil, 0)); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", text(c.in), got, c.want)
		}
		checkPending(t, &p)
	}
}

// checkPending checks the invariants of p.
func checkPending(t *testing.T, p *Pending[*thing]) {
	t.Helper()
	empty, live := 0, 0
	for i, e := range p.entries[p.head:] {
		switch {
		case e.Type == 0:
			empty++
		case p.places[e.Key] != p.head+i:
			t.Fatalf("%v is at %d, not at %d", e.Key, p.head+i, p.places[e.Key])
		default:
			live++
		}
	}
	if empty != p.empty || live != len(p.places) || live != p.Len() {
		t.Fatalf("%d void and %d pending entries, but empty %d, %d places, Len %d", empty, live, p.empty, len(p.places), p.Len())
	}
	if _, ok := p.Oldest(); ok != (live > 0) || live > 0 && p.entries[p.head].Type == 0 {
		t.Fatal("the first entry is void")
	}
}

// subscriber applies what it is told, and fails if that does not fit what it was told before.
type subscriber struct {
	t     *testing.T
	state model
}

func (s *subscriber) tell(deltas []delta) {
	for _, d := range deltas {
		have := s.state[d.Key]
		fits := have != nil
		switch d.Type {
		case object.Added:
			fits = have == nil
		case object.Updated:
			fits = have == d.Old
		}
		if !fits {
			s.t.Fatalf("told %s while knowing %v", text([]delta{d}), s.state)
		}
		s.state.apply([]delta{d})
	}
}

// TestPendingRandomHistory checks that a subscriber who is told what is pending, in pieces of any size, always
// hears what fits, and ends with the state of the server.
func TestPendingRandomHistory(t *testing.T) {
	for range 40 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			s := &server{rand: r, state: model{}}
			sub := &subscriber{t: t, state: model{}}
			var p Pending[*thing]
			start := time.Now()
			for i := range 1500 {
				p.Push(s.step(), start.Add(time.Duration(i)))
				if r.IntN(8) == 0 {
					sub.tell(p.Take(nil, r.IntN(6)))
				}
				checkPending(t, &p)
				if live := len(s.state) + len(sub.state); p.Len() > live {
					t.Fatalf("%d pending for %d keys", p.Len(), live)
				}
			}
			sub.tell(p.Take(nil, 0))
			if sub.state.String() != s.state.String() {
				t.Fatalf("the subscriber knows %s\nthe server has      %s", sub.state, s.state)
			}
		})
	}
}

// FuzzPending reads each byte as a change to one of eight keys, or as a Take.
func FuzzPending(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0xff, 2, 0x40, 2, 0x81})
	f.Add([]byte{3, 0x43, 3, 0x43, 0x82, 5, 5, 0x45})
	f.Fuzz(func(t *testing.T, ops []byte) {
		state, sub := model{}, &subscriber{t: t, state: model{}}
		var p Pending[*thing]
		for i, op := range ops {
			if op&0x80 != 0 {
				sub.tell(p.Take(nil, int(op&7)))
				continue
			}
			k := object.Key{Name: fmt.Sprint(op & 7)}
			old := state[k]
			d := change(object.Added, newThing(k.Name, i, i+1))
			if old != nil {
				d = update(old, newThing(k.Name, 0, i+1))
				if op&0x40 != 0 {
					d = change(object.Deleted, old)
				}
			}
			state.apply([]delta{d})
			p.Push(d, time.Time{})
			checkPending(t, &p)
		}
		sub.tell(p.Take(nil, 0))
		if sub.state.String() != state.String() {
			t.Fatalf("the subscriber knows %s, want %s", sub.state, state)
		}
	})
}

func TestPendingOldestAndMerged(t *testing.T) {
	var p Pending[*thing]
	if _, ok := p.Oldest(); ok {
		t.Error("nothing has an age")
	}
	start := time.Now()
	for i, name := range []string{"a", "b", "a", "c"} {
		p.Push(change(object.Sync, newThing(name, 1, 1)), start.Add(time.Duration(i)))
	}
	if at, _ := p.Oldest(); at != start || p.Len() != 3 || p.Merged() != 1 {
		t.Errorf("oldest %v, length %d, merged %d", at.Sub(start), p.Len(), p.Merged())
	}
	p.Take(nil, 1)
	if at, _ := p.Oldest(); at != start.Add(1) {
		t.Errorf("oldest %v", at.Sub(start))
	}
}

// TestPendingForgetsWhatCameAndWent keeps one entry pending while many others come and go.
func TestPendingForgetsWhatCameAndWent(t *testing.T) {
	var p Pending[*thing]
	p.Push(change(object.Added, newThing("stays", 1, 1)), time.Time{})
	for i := range 100_000 {
		o := newThing(fmt.Sprint(i), i, i+1)
		p.Push(change(object.Added, o), time.Time{})
		p.Push(change(object.Deleted, o), time.Time{})
	}
	if p.Len() != 1 || cap(p.entries) > smallBuffer {
		t.Errorf("%d entries in room for %d", p.Len(), cap(p.entries))
	}
	checkPending(t, &p)
}

func TestPendingGivesMemoryBack(t *testing.T) {
	for name, rest := range map[string]int{"emptied": 0, "never empty": 1} {
		var p Pending[*thing]
		for i := range 10_000 {
			p.Push(change(object.Added, newThing(fmt.Sprint(i), i, i+1)), time.Time{})
		}
		for i := range 20_000 {
			p.Push(change(object.Added, newThing(fmt.Sprint("later", i), i, i+1)), time.Time{})
			p.Take(nil, max(0, p.Len()-rest))
			if rest == 0 {
				p.Take(nil, 0)
			}
			checkFew(t, &p, i)
		}
		if cap(p.entries) > 2*smallBuffer {
			t.Errorf("%s: room for %d entries is left", name, cap(p.entries))
		}
	}
}

// checkFew checks the invariants now and then.
func checkFew(t *testing.T, p *Pending[*thing], i int) {
	if i%1000 == 0 {
		checkPending(t, p)
	}
}

func TestWarmPendingDoesNotAllocate(t *testing.T) {
	var p Pending[*thing]
	a, b := newThing("a", 1, 1), newThing("a", 1, 2)
	in := []delta{update(a, b), change(object.Sync, newThing("x", 2, 1)), update(a, b)}
	buf := make([]delta, 0, 4)
	allocs := testing.AllocsPerRun(1000, func() {
		for _, d := range in {
			p.Push(d, time.Time{})
		}
		buf = p.Take(buf[:0], 1)
		buf = p.Take(buf[:0], 0)
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}
