package workqueue

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/internal/testseed"
)

// model is a queue that is too simple to be wrong: slices that are searched, and rules applied literally.
type model struct {
	waiting []modelItem // in the order in which they came to their priority
	turns   [levels][]string
	passed  [levels]int
	working map[string]Priority // with the priority they were taken with
	dirty   map[string]Priority
	delayed map[string]modelDelay
	adds    uint64
}

type modelItem struct {
	item     string
	priority Priority
}

type modelDelay struct {
	due      time.Time
	priority Priority
}

func newModel() *model {
	return &model{working: map[string]Priority{}, dirty: map[string]Priority{}, delayed: map[string]modelDelay{}}
}

func flowOf(item string) string { return item[:1] }

func (m *model) add(item string, p Priority) {
	at := slices.IndexFunc(m.waiting, func(w modelItem) bool { return w.item == item })
	old, isDirty := m.dirty[item]
	_, isWorking := m.working[item]
	switch {
	case at >= 0 && m.waiting[at].priority >= p:
	case at >= 0:
		m.waiting = slices.Delete(m.waiting, at, at+1)
		m.wait(item, p)
	case isDirty:
		m.dirty[item] = max(old, p)
	case isWorking:
		m.dirty[item] = p
		m.adds++
	default:
		m.wait(item, p)
		m.adds++
	}
}

func (m *model) wait(item string, p Priority) {
	m.waiting = append(m.waiting, modelItem{item, p})
	turns := &m.turns[p.level()]
	if !slices.Contains(*turns, flowOf(item)) {
		*turns = append(*turns, flowOf(item))
	}
}

// kept is the priority of an add with KeepPriority.
func (m *model) kept(item string, p Priority) Priority {
	if taken, ok := m.working[item]; ok {
		return taken
	}
	return p
}

func (m *model) addAfter(item string, p Priority, d time.Duration) {
	due := time.Now().Add(d)
	if old, ok := m.delayed[item]; ok {
		p = max(p, old.priority)
		if old.due.Before(due) {
			due = old.due
		}
	}
	m.delayed[item] = modelDelay{due, p}
}

// tick adds all items that are due, the earliest first.
func (m *model) tick() {
	items := slices.SortedFunc(maps.Keys(m.delayed), func(a, b string) int {
		return m.delayed[a].due.Compare(m.delayed[b].due)
	})
	for _, item := range items {
		if d := m.delayed[item]; !d.due.After(time.Now()) {
			delete(m.delayed, item)
			m.add(item, d.priority)
		}
	}
}

// get returns the item that goes next.
func (m *model) get() string {
	at := -1
	for i := range levels {
		if m.count(i) > 0 && (at < 0 || m.passed[at] < maxPassed) {
			at = i
		}
	}
	m.passed[at] = 0
	for i := range at {
		if m.count(i) > 0 {
			m.passed[i]++
		}
	}
	for {
		name := m.turns[at][0]
		m.turns[at] = m.turns[at][1:]
		i := slices.IndexFunc(m.waiting, func(w modelItem) bool {
			return w.priority.level() == level(at) && flowOf(w.item) == name
		})
		if i < 0 {
			continue
		}
		item, p := m.waiting[i].item, m.waiting[i].priority
		m.waiting = slices.Delete(m.waiting, i, i+1)
		if slices.ContainsFunc(m.waiting, func(w modelItem) bool {
			return w.priority.level() == level(at) && flowOf(w.item) == name
		}) {
			m.turns[at] = append(m.turns[at], name)
		}
		m.working[item] = p
		return item
	}
}

func (m *model) count(at int) int {
	n := 0
	for _, w := range m.waiting {
		if w.priority.level() == level(at) {
			n++
		}
	}
	return n
}

func (m *model) done(item string) {
	delete(m.working, item)
	if p, ok := m.dirty[item]; ok {
		delete(m.dirty, item)
		m.wait(item, p)
	}
}

// TestModel runs random operations on a queue and on the model, and compares everything that is visible.
func TestModel(t *testing.T) {
	testseed.Each(t, 60, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			compareWithModel(t, rand.New(rand.NewPCG(seed, 0)))
		})
	})
}

func compareWithModel(t *testing.T, random *rand.Rand) {
	q := New(Options[string]{Flow: flowOf})
	m := newModel()
	for range 600 {
		item := fmt.Sprintf("%c%d", 'a'+rune(random.IntN(4)), random.IntN(5))
		p := Priority(random.IntN(levels) - 1)
		keep := random.IntN(3) == 0
		switch random.IntN(10) {
		case 0, 1, 2, 3:
			q.AddWith(item, AddOptions{Priority: p, KeepPriority: keep})
			if keep {
				p = m.kept(item, p)
			}
			m.add(item, p)
		case 4:
			// Nanoseconds, so that no two items are due at the same time, when any order would be right.
			d := time.Duration(1 + random.Int64N(int64(time.Minute)))
			q.AddWith(item, AddOptions{Priority: p, Delay: d, KeepPriority: keep})
			if keep {
				p = m.kept(item, p)
			}
			m.addAfter(item, p, d)
		case 5:
			time.Sleep(time.Duration(random.Int64N(int64(10 * time.Second))))
			synctest.Wait()
			m.tick()
		case 6, 7:
			if len(m.waiting) == 0 {
				continue
			}
			want := m.get()
			if got, err := q.Get(t.Context()); got != want || err != nil {
				t.Fatalf("Get: %q, %v; want %q", got, err, want)
			}
		default:
			q.Done(item) // for one that nobody has it does nothing
			if _, ok := m.working[item]; ok {
				m.done(item)
			}
		}
		if got, want := q.PriorityOf(item), m.kept(item, Normal); got != want {
			t.Fatalf("PriorityOf(%q): %d, want %d", item, got, want)
		}
		compareStats(t, q, m)
		checkInvariants(t, q)
	}
	for item := range m.working {
		q.Done(item)
	}
	if err := q.ShutDown(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, q)
}

func compareStats(t *testing.T, q *Queue[string], m *model) {
	t.Helper()
	want := Stats{
		Depth: len(m.waiting), DepthLow: m.count(0), DepthHigh: m.count(2),
		Delayed: len(m.delayed), Working: len(m.working), Adds: m.adds,
	}
	got := q.Stats()
	got.Retries = 0
	if got != want {
		t.Fatalf("stats:\n got %+v\nwant %+v", got, want)
	}
}

// checkInvariants checks the invariants in the comments of Queue's fields.
func checkInvariants[T comparable](t *testing.T, q *Queue[T]) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	idle, waiting, working, delayed := 0, 0, 0, 0
	ofFlow := map[*flow[T]]int{}
	for item, e := range q.table.entries {
		ofFlow[e.flow]++
		if e.item != item || q.table.flows[e.flow.name] != e.flow {
			t.Fatalf("%v: entry of %v in flow %q", item, e.item, e.flow.name)
		}
		if e.waiting && e.working || e.dirty && !e.working {
			t.Fatalf("%v: waiting %v, working %v, dirty %v", item, e.waiting, e.working, e.dirty)
		}
		idle += count(e.idle())
		waiting += count(e.waiting)
		working += count(e.working)
		delayed += count(e.heapAt > 0)
		if e.waiting && !e.flow.levels[e.level].queued {
			t.Fatalf("%v waits in a flow that is not in line", item)
		}
		if !e.waiting && !e.working && (e.prev != nil || e.next != nil) {
			t.Fatalf("%v is in no list, and refers to others", item)
		}
		if e.heapAt > 0 && q.delays.heap[e.heapAt-1] != e {
			t.Fatalf("%v is not where it should be in the heap", item)
		}
	}
	if idle != q.table.idle || waiting != q.schedule.len() || working != q.working.len || delayed != len(q.delays.heap) {
		t.Fatalf("counts are wrong: idle %d=%d waiting %d=%d working %d=%d delayed %d=%d", idle, q.table.idle,
			waiting, q.schedule.len(), working, q.working.len, delayed, len(q.delays.heap))
	}
	if q.table.idle > max(maxIdle, len(q.table.entries)-q.table.idle) || q.table.spares > maxIdle {
		t.Fatalf("%d idle entries and %d spares beside %d in use", q.table.idle, q.table.spares, len(q.table.entries)-q.table.idle)
	}
	if len(q.getters.waiting) > 0 && waiting > 0 {
		t.Fatalf("%d getters wait beside %d items", len(q.getters.waiting), waiting)
	}
	if delayed > 0 && (q.delays.at == 0 || q.delays.at > q.delays.heap[0].due) {
		t.Fatalf("the timer is set to %v, the first item is due at %v", q.delays.at, q.delays.heap[0].due)
	}
	for name, f := range q.table.flows {
		if f.entries == 0 || f.entries != ofFlow[f] {
			t.Fatalf("flow %q counts %d entries and has %d", name, f.entries, ofFlow[f])
		}
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestShrinks fills a queue, empties it, and checks what is left.
func TestShrinks(t *testing.T) {
	q := New(Options[int]{Flow: func(i int) string { return fmt.Sprint(i % 5000) }})
	const burst = 50_000
	for i := range burst {
		q.Add(i)
		q.AddAfter(i, time.Hour)
	}
	for range burst {
		item, err := q.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q.Done(item)
	}
	if len(q.table.entries) != burst {
		t.Errorf("%d entries for %d delayed items", len(q.table.entries), burst)
	}
	if err := q.ShutDown(context.Background()); err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, q)
	if len(q.table.entries) > maxIdle || len(q.table.flows) > maxIdle || q.table.spares > maxIdle || cap(q.delays.heap) > maxIdle {
		t.Errorf("left: %d entries, %d flows, %d spares, room for %d delays",
			len(q.table.entries), len(q.table.flows), q.table.spares, cap(q.delays.heap))
	}
}

// TestDelaysShrink has many delayed items; when all but a few have become due, little memory is left.
func TestDelaysShrink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[int]{})
		const burst = 8 * maxIdle
		for i := range burst {
			q.AddAfter(i, time.Duration(1+i%100)*time.Second)
		}
		q.AddAfter(-1, time.Hour)
		time.Sleep(time.Minute * 2)
		synctest.Wait()
		if n := q.Len(); n != burst {
			t.Errorf("%d of %d items have come", n, burst)
		}
		checkInvariants(t, q)
		q.mu.Lock()
		if room := cap(q.delays.heap); room > maxIdle {
			t.Errorf("room for %d delays of one item", room)
		}
		q.mu.Unlock()
		go func() { _ = q.ShutDown(t.Context()) }()
		for item, err := q.Get(t.Context()); err == nil; item, err = q.Get(t.Context()) {
			q.Done(item)
		}
	})
}

// TestGettersAreForgotten has many Gets waiting at a time.
func TestGettersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Options[int]{})
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for range 10 * maxSpareGetters {
			waiting.Go(func() {
				if _, err := q.Get(ctx); err != context.Canceled {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		cancel()
		waiting.Wait()
		if n := len(q.getters.spare); n > maxSpareGetters || len(q.getters.waiting) != 0 {
			t.Errorf("%d getters are kept, %d wait", n, len(q.getters.waiting))
		}
	})
}
