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
	// failures are those that the rate limiter knows of, waits how often it has let the item wait, and due when the last
	// of these waits ends.
	failures, waits map[string]int
	due             map[string]time.Time
	adds, retries   uint64
	// getters is the number of calls of Get that wait, handed the items that they get; closing is set by a shutdown.
	getters int
	handed  []string
	closing bool
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
	return &model{
		working: map[string]Priority{}, dirty: map[string]Priority{}, delayed: map[string]modelDelay{},
		failures: map[string]int{}, waits: map[string]int{}, due: map[string]time.Time{},
	}
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

// wait makes the item wait, unless a call of Get waits for one: then nothing else waits, and it is nobody's turn.
func (m *model) wait(item string, p Priority) {
	if m.getters > 0 {
		m.getters--
		m.handed = append(m.handed, item)
		m.working[item] = p
		return
	}
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

// addWith adds the item with options.
func (m *model) addWith(item string, o AddOptions) {
	d := o.Delay
	if o.RateLimited {
		d = max(d, m.failed(item))
	}
	if m.closing {
		return
	}
	if o.RateLimited || o.Delay > 0 {
		m.retries++
	}
	p := o.Priority
	if o.KeepPriority {
		p = m.kept(item, p)
	}
	if d > 0 {
		m.addAfter(item, p, d)
	} else {
		m.add(item, p)
	}
}

// failed counts a failure and returns how long the item has to wait: for what is left of its wait, or for the next one.
func (m *model) failed(item string) time.Duration {
	m.failures[item]++
	if !time.Now().Before(m.due[item]) {
		m.due[item] = time.Now().Add(modelWait(m.waits[item]))
		m.waits[item]++
	}
	return time.Until(m.due[item])
}

// forget forgets the item's failures.
func (m *model) forget(item string) {
	delete(m.failures, item)
	delete(m.waits, item)
	delete(m.due, item)
}

// modelWait is the wait of an item that has waited that often before.
func modelWait(waits int) time.Duration {
	return min(time.Second<<min(waits, 10), 20*time.Second)
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

// tickOne adds the item that was due first, and returns false if none is.
func (m *model) tickOne() bool {
	if len(m.delayed) == 0 {
		return false
	}
	item := slices.MinFunc(slices.Collect(maps.Keys(m.delayed)), func(a, b string) int {
		return m.delayed[a].due.Compare(m.delayed[b].due)
	})
	d := m.delayed[item]
	if d.due.After(time.Now()) {
		return false
	}
	delete(m.delayed, item)
	m.add(item, d.priority)
	return true
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

// compared is a queue and a model of it.
type compared struct {
	*rand.Rand
	t *testing.T
	q *Queue[string]
	m *model
	// got are the items that waiting calls of Get have returned, and the errors of those that got none.
	got chan error
}

// itemError says that a call of Get has returned an item.
type itemError string

func (e itemError) Error() string { return string(e) }

func compareWithModel(t *testing.T, random *rand.Rand) {
	limiter := &Exponential[string]{Base: time.Second, Max: 20 * time.Second}
	c := &compared{random, t, New(Options[string]{Flow: flowOf, RateLimiter: limiter}), newModel(), make(chan error, 1000)}
	end := 300 + c.IntN(300)
	for i := range 600 {
		item := fmt.Sprintf("%c%d", 'a'+rune(c.IntN(4)), c.IntN(5))
		c.operate(item)
		if i == end {
			c.shutDown()
		}
		c.compare(item)
	}
	if !c.m.closing {
		c.shutDown()
	}
	c.finish()
}

// operate runs one random operation.
func (c *compared) operate(item string) {
	q, m := c.q, c.m
	o := AddOptions{Priority: Priority(c.IntN(levels) - 1), KeepPriority: c.IntN(3) == 0}
	switch c.IntN(13) {
	case 0, 1, 2, 3:
		c.add(item, o)
	case 4:
		// Nanoseconds, so that no two items are due at the same time, when any order would be right.
		o.Delay = time.Duration(1 + c.Int64N(int64(time.Minute)))
		c.add(item, o)
	case 5:
		o.RateLimited = true
		o.Delay = time.Duration(c.Int64N(int64(time.Minute))) * time.Duration(c.IntN(2))
		time.Sleep(time.Duration(1 + c.Int64N(int64(time.Millisecond)))) // likewise
		c.tick()
		c.add(item, o)
	case 6:
		q.Forget(item)
		m.forget(item)
	case 7:
		time.Sleep(time.Duration(c.Int64N(int64(10 * time.Second))))
		c.tick()
	case 8, 9, 10:
		c.get()
	default:
		q.Done(item) // for one that nobody has it does nothing
		if _, ok := m.working[item]; ok {
			m.done(item)
			c.serve()
		}
	}
}

func (c *compared) add(item string, o AddOptions) {
	c.q.AddWith(item, o)
	c.m.addWith(item, o)
	c.serve()
}

// tick lets items become due, one at a time.
func (c *compared) tick() {
	synctest.Wait()
	for c.m.tickOne() {
		c.serve()
	}
}

// get calls Get. If there is nothing, the call waits.
func (c *compared) get() {
	switch {
	case len(c.m.waiting) > 0:
		want := c.m.get()
		if got, err := c.q.Get(c.t.Context()); got != want || err != nil {
			c.t.Fatalf("Get: %q, %v; want %q", got, err, want)
		}
	case c.m.closing:
		if _, err := c.q.Get(c.t.Context()); err != ErrShutDown {
			c.t.Fatalf("Get: %v; want ErrShutDown", err)
		}
	case c.m.getters < 3:
		c.m.getters++
		go func() {
			item, err := c.q.Get(c.t.Context())
			if err == nil {
				err = itemError(item)
			}
			c.got <- err
		}()
		synctest.Wait()
	}
}

// serve compares what waiting calls of Get have returned.
func (c *compared) serve() {
	for _, item := range c.m.handed {
		if got := <-c.got; got != itemError(item) {
			c.t.Fatalf("a waiting Get: %v; want %q", got, item)
		}
	}
	c.m.handed = nil
}

// shutDown shuts the queue down, with or without a drain.
func (c *compared) shutDown() {
	ended, cancel := context.WithCancel(c.t.Context())
	cancel()
	shutDown, drop := c.q.ShutDownWithDrain, c.IntN(2) == 0
	if drop {
		shutDown = c.q.ShutDown
	}
	c.m.shutDown(drop)
	left := len(c.m.waiting) + len(c.m.working)
	if err := shutDown(ended); (err == nil) != (left == 0) {
		c.t.Fatalf("shutdown with %d items left: %v", left, err)
	}
	for ; c.m.getters > 0; c.m.getters-- {
		if err := <-c.got; err != ErrShutDown {
			c.t.Fatalf("a waiting Get: %v; want ErrShutDown", err)
		}
	}
}

func (m *model) shutDown(drop bool) {
	m.closing = true
	clear(m.delayed)
	if drop {
		m.waiting = nil
		clear(m.dirty)
	}
}

// finish works off what is left after the shutdown.
func (c *compared) finish() {
	drained := make(chan error, 1)
	go func() { drained <- c.q.ShutDownWithDrain(c.t.Context()) }()
	for len(c.m.waiting)+len(c.m.working) > 0 {
		synctest.Wait()
		if len(drained) > 0 {
			c.t.Fatalf("drained with %d items waiting and %d in work", len(c.m.waiting), len(c.m.working))
		}
		for item := range c.m.working {
			c.q.Done(item)
			c.m.done(item)
			break
		}
		if len(c.m.waiting) > 0 {
			c.get()
		}
		c.compare("")
	}
	if err := <-drained; err != nil {
		c.t.Fatal(err)
	}
}

// compare compares everything that is visible.
func (c *compared) compare(item string) {
	c.t.Helper()
	if got, want := c.q.PriorityOf(item), c.m.kept(item, Normal); got != want {
		c.t.Fatalf("PriorityOf(%q): %d, want %d", item, got, want)
	}
	if got, want := c.q.NumRequeues(item), c.m.failures[item]; got != want {
		c.t.Fatalf("NumRequeues(%q): %d, want %d", item, got, want)
	}
	if c.q.Len() != len(c.m.waiting) || c.q.ShuttingDown() != c.m.closing {
		c.t.Fatalf("%d items, shutting down %t; want %d, %t", c.q.Len(), c.q.ShuttingDown(), len(c.m.waiting), c.m.closing)
	}
	compareStats(c.t, c.q, c.m)
	checkInvariants(c.t, c.q)
}

func compareStats(t *testing.T, q *Queue[string], m *model) {
	t.Helper()
	want := Stats{
		Depth: len(m.waiting), DepthLow: m.count(0), DepthHigh: m.count(2),
		Delayed: len(m.delayed), Working: len(m.working), Adds: m.adds, Retries: m.retries,
	}
	if got := q.Stats(); got != want {
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
		if f.entries == 0 && name != "" || f.entries != ofFlow[f] {
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
