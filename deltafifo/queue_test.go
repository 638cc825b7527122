package deltafifo

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/object"
)

func pop(t *testing.T, q *Queue[*thing], m model) Batch[*thing] {
	t.Helper()
	b, ok := q.Pop(m.known)
	if !ok {
		t.Fatal("nothing is pending")
	}
	return b
}

func TestChangesComeOutInOrder(t *testing.T) {
	q := New[*thing](Options{})
	q.Add(1, []delta{change(object.Added, newThing("a", 1, 1)), change(object.Updated, newThing("a", 1, 2))}, "2")
	q.Add(2, []delta{change(object.Added, newThing("z", 9, 3))}, "3")
	q.Add(1, []delta{change(object.Bookmark, nothing), change(object.Deleted, newThing("a", 1, 4))}, "5")
	q.Add(1, nil, "6")
	if n := q.Stats().Length; n != 4 {
		t.Errorf("length %d, want 4", n)
	}
	b := pop(t, q, nil)
	if got := text(b.Deltas); got != "Added:a/u1/1 Updated:a/u1/2 Deleted:a/u1/4" || b.Part != 1 || b.ResourceVersion != "6" || b.Replaced {
		t.Errorf("got %s, %+v", got, b)
	}
	if b = pop(t, q, nil); text(b.Deltas) != "Added:z/u9/3" || b.Part != 2 || b.ResourceVersion != "3" {
		t.Errorf("got %+v", b)
	}
	if _, ok := q.Pop(nil); ok || q.Stats() != (Stats{}) {
		t.Errorf("something is left: %+v", q.Stats())
	}
}

// nothing is an object for a bookmark, which has none.
var nothing = newThing("", 0, 0)

func TestBookmarkAlone(t *testing.T) {
	q := New[*thing](Options{})
	q.Add(0, nil, "7")
	if b := pop(t, q, nil); len(b.Deltas) != 0 || b.ResourceVersion != "7" {
		t.Errorf("got %+v", b)
	}
}

func TestReplaceIsTheDifference(t *testing.T) {
	known := model{}
	for _, o := range []*thing{
		newThing("changed", 1, 10), newThing("gone", 2, 11), newThing("newer", 3, 90), newThing("older", 4, 13),
		newThing("other", 5, 14), newThing("same", 6, 15), newThing("young", 7, 99),
	} {
		known[object.KeyOf(o)] = o
	}
	items := []*thing{
		newThing("same", 6, 15), newThing("added", 8, 20), newThing("changed", 1, 21), newThing("newer", 3, 12),
		newThing("older", 4, 20), newThing("older", 4, 22), newThing("older", 4, 21), newThing("other", 9, 23), newThing("zz", 10, 24),
	}
	q := New[*thing](Options{})
	q.Add(0, []delta{change(object.Added, newThing("superseded", 1, 5))}, "5")
	q.Replace(0, slices.Clone(items), "30")
	q.Add(0, []delta{change(object.Updated, newThing("zz", 10, 31))}, "31")
	b := pop(t, q, known)
	want := strings.Join([]string{
		"Added:added/u8/20+initial", "Replaced:changed/u1/21<10", "Deleted:gone/u2/11+missed", "Replaced:older/u4/22<13",
		"Deleted:other/u5/14+missed", "Added:other/u9/23", "Added:zz/u10/24+initial",
	}, " ")
	if got := text(b.Deltas); got != want || b.ResourceVersion != "30" || !b.Replaced {
		t.Errorf("got  %s\nwant %s\nin %+v", got, want, b)
	}
	if b = pop(t, q, known); text(b.Deltas) != "Updated:zz/u10/31" || b.ResourceVersion != "31" || b.Replaced {
		t.Errorf("got %+v", b)
	}
	q.Replace(0, []*thing{newThing("later", 20, 40)}, "0")
	if got := text(pop(t, q, model{}).Deltas); got != "Added:later/u20/40" {
		t.Errorf("the second Replace gives %s", got)
	}
}

func TestUnchangedReplaceAllocatesLittle(t *testing.T) {
	known := model{}
	for i := range 1000 {
		o := newThing(fmt.Sprintf("n%04d", i), i, i+1)
		known[object.KeyOf(o)] = o
	}
	items := make([]*thing, 0, len(known))
	for _, o := range known.all() {
		items = append(items, o.DeepCopy())
	}
	sorted := known.all()
	r := replacement[*thing]{items: items, version: "2000"}
	n := 0
	allocs := testing.AllocsPerRun(10, func() { n += len(r.difference(nil, sorted, false)) })
	model := testing.AllocsPerRun(10, func() { sorted(func(object.Key, *thing) bool { return true }) })
	if n != 0 || allocs > model+8 {
		t.Errorf("%d changes, %v allocations besides the %v of the model", n, allocs-model, model)
	}
}

// TestCoalescing has one row for each way in which changes of one key merge. Limit is 1, so that all do.
func TestCoalescing(t *testing.T) {
	a1, a2, a3 := newThing("a", 1, 1), newThing("a", 1, 2), newThing("a", 1, 3)
	b4, b5, b6, c7 := newThing("a", 2, 4), newThing("a", 2, 5), newThing("a", 2, 6), newThing("a", 3, 7)
	x := change(object.Added, newThing("x", 9, 9))
	for _, c := range []struct {
		in   []delta
		want string
	}{
		{[]delta{change(object.Added, a1), x, change(object.Updated, a2)}, "Added:a/u1/2 Added:x/u9/9"},
		{[]delta{change(object.Updated, a1), x, change(object.Updated, a2), change(object.Updated, a3)}, "Updated:a/u1/3 Added:x/u9/9"},
		{[]delta{change(object.Updated, a2), change(object.Updated, a1)}, "Updated:a/u1/2"},
		{[]delta{change(object.Added, a1), change(object.Deleted, a2)}, "Deleted:a/u1/2"},
		{[]delta{change(object.Updated, a1), change(object.Deleted, a2)}, "Deleted:a/u1/2"},
		{[]delta{change(object.Deleted, a1), change(object.Added, a2)}, "Updated:a/u1/2"},
		{[]delta{change(object.Deleted, a1), x, change(object.Added, b4)}, "Deleted:a/u1/1 Added:x/u9/9 Added:a/u2/4"},
		{[]delta{change(object.Deleted, a1), change(object.Added, b4), change(object.Updated, b5)}, "Deleted:a/u1/1 Added:a/u2/5"},
		{[]delta{change(object.Deleted, a1), change(object.Added, b4), change(object.Deleted, b5)}, "Deleted:a/u1/1"},
		{[]delta{change(object.Deleted, a1), change(object.Added, b4), change(object.Deleted, b5), change(object.Deleted, b6), change(object.Sync, b6)}, "Deleted:a/u1/1"},
		{[]delta{change(object.Deleted, a1), change(object.Added, b4), change(object.Deleted, b5), change(object.Added, c7)}, "Deleted:a/u1/1 Added:a/u3/7"},
		{[]delta{change(object.Sync, a1), change(object.Updated, a2)}, "Updated:a/u1/2"},
		{[]delta{change(object.Updated, a2), change(object.Sync, a1)}, "Updated:a/u1/2"},
		{[]delta{change(object.Deleted, a1), change(object.Sync, a1)}, "Deleted:a/u1/1"},
		{[]delta{change(object.Sync, a1), change(object.Sync, a2)}, "Sync:a/u1/2"},
		{[]delta{change(object.Sync, a1), change(object.Deleted, a2)}, "Deleted:a/u1/2"},
	} {
		q := New[*thing](Options{Limit: 1})
		q.Add(0, c.in, "9")
		if got := text(pop(t, q, nil).Deltas); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", text(c.in), got, c.want)
		}
	}
}

// server makes a random but possible history of one part, some names only, and remembers the present state.
type server struct {
	rand    *rand.Rand
	version int
	state   model
}

func (s *server) step() delta {
	s.version++
	k := object.Key{Name: fmt.Sprint("n", s.rand.IntN(12))}
	old, ok := s.state[k]
	switch {
	case !ok:
		s.state[k] = newThing(k.Name, s.version, s.version)
		return change(object.Added, s.state[k])
	case s.rand.IntN(3) == 0:
		delete(s.state, k)
		final := old.DeepCopy()
		final.ResourceVersion = strconv.Itoa(s.version)
		return change(object.Deleted, final)
	default:
		next := old.DeepCopy()
		next.ResourceVersion = strconv.Itoa(s.version)
		s.state[k] = next
		return update(old, next)
	}
}

// TestRandomHistory checks that the state behind the queue follows the server, whatever is merged or replaced.
func TestRandomHistory(t *testing.T) {
	for range 40 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			s := &server{rand: r, state: model{}}
			q := New[*thing](Options{Limit: 1 + r.IntN(30)})
			behind := model{}
			for range 200 {
				if r.IntN(15) == 0 {
					for range r.IntN(10) { // not seen
						s.step()
					}
					items := slices.Collect(maps.Values(s.state))
					q.Replace(0, items, strconv.Itoa(s.version))
				} else {
					run := make([]delta, r.IntN(20))
					for i := range run {
						run[i] = s.step()
					}
					q.Add(0, run, strconv.Itoa(s.version))
				}
				checkBound(t, q)
				if r.IntN(4) == 0 {
					drain(t, q, behind)
					if behind.String() != s.state.String() {
						t.Fatalf("behind the queue is %s\nthe server has    %s", behind, s.state)
					}
				}
			}
		})
	}
}

func checkBound(t *testing.T, q *Queue[*thing]) {
	t.Helper()
	singles, keys := len(q.parts[0].deltas), map[object.Key]bool{}
	for _, d := range q.parts[0].deltas {
		keys[d.Key] = true
	}
	if singles > max(q.limit, 2*len(keys)) {
		t.Fatalf("%d pending changes of %d keys, limit %d", singles, len(keys), q.limit)
	}
	if got, want := q.Stats().Length, q.parts[0].length(); got != want {
		t.Fatalf("Stats says %d, want %d", got, want)
	}
}

// drain applies all that is pending, and checks that no object goes back in time.
func drain(t *testing.T, q *Queue[*thing], m model) {
	t.Helper()
	for {
		b, ok := q.Pop(m.known)
		if !ok {
			return
		}
		for _, d := range b.Deltas {
			if old := m[d.Key]; old != nil && object.OlderResourceVersion(d.Object.ResourceVersion, old.ResourceVersion) {
				t.Fatalf("%v goes back from %s to %s", d.Key, old.ResourceVersion, d.Object.ResourceVersion)
			}
			m.apply([]delta{d})
		}
	}
}

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[*thing](Options{Limit: 2})
		q.Add(0, []delta{change(object.Added, newThing("a", 1, 1))}, "1")
		time.Sleep(time.Second)
		q.Add(1, []delta{change(object.Added, newThing("b", 2, 2))}, "2")
		time.Sleep(time.Second)
		for i := range 5 {
			q.Add(0, []delta{change(object.Updated, newThing("a", 1, 3+i))}, "")
		}
		if got, want := q.Stats(), (Stats{Length: 2, Oldest: 2 * time.Second, Coalesced: 5}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		b := pop(t, q, nil)
		if got := q.Stats(); got.Oldest != time.Second || time.Since(b.Since) != 2*time.Second {
			t.Errorf("got %+v, batch of %v", got, b.Since)
		}
	})
}

// TestProducersAndConsumer runs several producers against a consumer.
func TestProducersAndConsumer(t *testing.T) {
	q := New[*thing](Options{Limit: 8})
	servers := make([]*server, 3)
	done := make(chan struct{})
	var producers sync.WaitGroup
	for p := range servers {
		s := &server{rand: rand.New(rand.NewPCG(uint64(p), 0)), state: model{}}
		servers[p] = s
		producers.Go(func() {
			for range 500 {
				q.Add(Part(p), []delta{s.step(), s.step()}, strconv.Itoa(s.version))
			}
			q.Replace(Part(p), slices.Collect(maps.Values(s.state)), strconv.Itoa(s.version))
		})
	}
	go func() { producers.Wait(); close(done) }()
	states := []model{{}, {}, {}}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			runtime.Gosched()
		}
		for {
			b, ok := q.Pop(func(p Part) iter.Seq2[object.Key, *thing] { return states[p].all() })
			if !ok {
				break
			}
			states[b.Part].apply(b.Deltas)
		}
	}
	for p, s := range servers {
		if states[p].String() != s.state.String() {
			t.Errorf("part %d is %s\nwant %s", p, states[p], s.state)
		}
	}
}

// TestStuckConsumer has many objects of ever new names come and go while nobody pops.
func TestStuckConsumer(t *testing.T) {
	q := New[*thing](Options{Limit: 100})
	q.Add(0, []delta{change(object.Updated, newThing("known", 1, 1))}, "1")
	for i := range 20_000 {
		// Every third name comes back once, for another object.
		o := newThing(fmt.Sprint(i-i%3/2), i, i+2)
		q.Add(0, []delta{change(object.Added, o), change(object.Deleted, o)}, "")
		if n := q.Stats().Length; n > 300 {
			t.Fatalf("%d changes are pending", n)
		}
	}
	q.Add(0, []delta{change(object.Deleted, newThing("known", 1, 30_000))}, "")
	last := pop(t, q, nil).Deltas
	if got := text(last[:1]); got != "Deleted:known/u1/30000" {
		t.Errorf("got %s", got)
	}
}

func TestQueueGivesMemoryBack(t *testing.T) {
	q := New[*thing](Options{Limit: 10})
	for i := range 10_000 {
		q.Add(0, []delta{change(object.Added, newThing(fmt.Sprint(i), i, i+1))}, "")
	}
	if n := len(pop(t, q, nil).Deltas); n != 10_000 {
		t.Fatalf("%d changes", n)
	}
	for range 3 {
		q.Add(0, []delta{change(object.Added, newThing("a", 1, 1))}, "")
		pop(t, q, nil)
		q.Pop(nil)
	}
	if room := cap(q.buffers.spare); room > smallBuffer || q.parts[0].places != nil || q.parts[0].deltas != nil {
		t.Errorf("room for %d changes is left", room)
	}
}

func TestWarmQueueDoesNotAllocate(t *testing.T) {
	q := New[*thing](Options{})
	run := []delta{change(object.Added, newThing("a", 1, 1)), change(object.Updated, newThing("a", 1, 2))}
	allocs := testing.AllocsPerRun(100, func() {
		q.Add(0, run, "2")
		q.Pop(nil)
		q.Pop(nil)
	})
	if allocs > 0 {
		t.Errorf("%v allocations for a run", allocs)
	}
}
