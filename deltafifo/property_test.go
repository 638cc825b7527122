package deltafifo

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
)

// namespaces is how many namespaces a world has, each listed at some time of its own.
const namespaces = 4

// world is a server, an informer that has listed some of its namespaces, and a queue for a consumer. Each of
// its operations is a byte.
type world struct {
	t      testing.TB
	q      *Queue[*thing]
	server model
	// listed are the namespaces whose deltas are added. run holds those to be added, copies what was added.
	listed  map[string]bool
	run     []delta
	copies  []addedRun
	version int
	// versions is what the consumer must have at each version. Unless the policy is Coalesce,
	// expected is all deltas since the last Replace, and those that came out.
	versions     map[string]string
	expected     []delta
	popped       []delta
	collections  int // pending initial lists before the mark
	marked, done bool
	consumer     *consumer
	newest       string // of the versions that came out
}

type addedRun struct{ run, clone []delta }

func newWorld(t testing.TB, policy Policy) *world {
	return &world{
		t: t, q: New[*thing](Options{Policy: policy, Limit: 10}), server: model{}, listed: map[string]bool{},
		versions: map[string]string{}, consumer: &consumer{t: t, state: model{}},
	}
}

func (w *world) isListed(k object.Key) bool { return w.listed[k.Namespace] }

// operate runs one operation.
func (w *world) operate(op byte) {
	arg := op & 0x1f
	switch op >> 5 {
	case 0, 1:
		w.upsert(arg)
	case 2:
		w.remove(arg)
	case 3:
		w.flush()
	case 4:
		w.list(fmt.Sprint(arg % namespaces))
	case 5:
		if arg%2 == 0 {
			w.resync()
		} else {
			w.refilter()
		}
	case 6:
		w.pop(int(arg))
	case 7:
		switch {
		case arg > 28:
			w.replace()
		case arg > 24:
			w.giveUp(fmt.Sprint(arg % namespaces))
		default:
			w.pop(int(arg))
		}
	}
	w.check()
}

func keyOf(n byte) object.Key {
	return object.Key{Namespace: fmt.Sprint(n % namespaces), Name: fmt.Sprint("n", n/namespaces)}
}

func (w *world) upsert(n byte) {
	w.version++
	k := keyOf(n)
	o := newThing(k.Name, w.version, w.version)
	o.Namespace = k.Namespace
	d := change(object.Added, o)
	if old := w.server[k]; old != nil {
		o.UID = old.UID
		d = update(old, o)
	}
	w.server[k] = o
	w.add(d)
}

func (w *world) remove(n byte) {
	k := keyOf(n)
	old := w.server[k]
	if old == nil {
		return
	}
	w.version++
	final := old.DeepCopy()
	final.ResourceVersion = strconv.Itoa(w.version)
	delete(w.server, k)
	w.add(delta{Key: k, Object: final, Old: old, Type: object.Deleted})
}

func (w *world) add(d delta) {
	if w.isListed(d.Key) {
		w.run = append(w.run, d)
	}
}

// flush adds the run.
func (w *world) flush() {
	w.version++
	version := strconv.Itoa(w.version)
	w.versions[version] = w.server.text(w.isListed)
	w.q.Add(w.run, version)
	w.copies = append(w.copies, addedRun{w.run, slices.Clone(w.run)})
	w.expected = append(w.expected, w.run...)
	w.run = nil
}

// list lists a namespace: its objects are added as a collection.
func (w *world) list(namespace string) {
	if w.listed[namespace] {
		return
	}
	w.flush()
	w.listed[namespace] = true
	w.q.Sync(w.server.picture(func(k object.Key) bool { return k.Namespace == namespace }), true)
	if last := w.q.entries.last(); last.merged != nil {
		w.versions[strconv.Itoa(w.version)] = w.server.text(w.isListed)
	} else if !w.marked {
		w.collections++
	}
	if len(w.listed) == namespaces && !w.marked {
		w.q.Mark()
		w.marked = true
	}
}

// giveUp is the contrary of list.
func (w *world) giveUp(namespace string) {
	if !w.listed[namespace] {
		return
	}
	w.flush()
	w.version++
	version := strconv.Itoa(w.version)
	gone := w.server.picture(func(k object.Key) bool { return k.Namespace == namespace })
	delete(w.listed, namespace)
	w.versions[version] = w.server.text(w.isListed)
	w.q.Delete(gone, version)
}

func (w *world) resync() {
	w.flush()
	wasIdle := w.q.entries.len() == 0
	if w.q.Sync(w.server.picture(w.isListed), false) != wasIdle {
		w.t.Fatalf("a resync was queued while something is pending, or skipped although nothing is")
	}
}

// refilter expects a batch that is pending by itself, unless there is one already.
func (w *world) refilter() {
	w.flush()
	pending, before := w.refilters(), w.q.entries.len()
	w.q.Refilter(w.server.picture(w.isListed))
	if w.refilters() != 1 || w.q.entries.len() != before+1-pending {
		w.t.Fatalf("%d refilters are pending after one more than %d", w.refilters(), pending)
	}
}

// refilters returns how many refilters are pending.
func (w *world) refilters() (n int) {
	for _, e := range w.q.entries.items[w.q.entries.head:] {
		if e.Type == Refilter {
			n++
		}
	}
	return n
}

func (w *world) replace() {
	w.flush()
	w.version++
	version := strconv.Itoa(w.version)
	w.versions[version] = w.server.text(w.isListed)
	w.q.Replace(w.server.picture(w.isListed), version)
	w.expected, w.popped, w.collections = nil, nil, 0
}

// pop ends the batch in flight, delivers the next one, and reports some of it done.
func (w *world) pop(done int) {
	if idle(w.q) {
		return
	}
	b := pop(w.t, w.q)
	w.consumer.apply(&b)
	w.popped = append(w.popped, b.Deltas...)
	w.q.Done(min(done, b.Len()))
	switch {
	case b.Type == Initial && !w.done:
		w.collections--
	case b.Type == Synced && (w.done || w.collections != 0):
		w.t.Fatalf("a second mark, or one before %d collections", w.collections)
	case b.Type == Synced:
		w.done = true
	}
	if v := b.ResourceVersion; v != "" {
		if object.OlderResourceVersion(v, w.newest) {
			w.t.Fatalf("version %s comes behind %s", v, w.newest)
		}
		w.newest = v
		if got := w.consumer.state.String(); got != w.versions[v] {
			w.t.Fatalf("at version %s the consumer knows %s\nwant %s", v, got, w.versions[v])
		}
	}
}

// check checks the invariants of the queue.
func (w *world) check() {
	w.t.Helper()
	deltas, objects, merging := 0, 0, false
	for _, e := range w.q.entries.items[w.q.entries.head:] {
		if e.merged != nil {
			checkMerged(w.t, e.merged)
			deltas += e.merged.len()
			if merging || w.q.options.Policy != Coalesce {
				w.t.Fatal("merged deltas are next to others, or should not be")
			}
		}
		merging = e.merged != nil
		deltas += len(e.Deltas)
		objects += e.objects()
	}
	if deltas != w.q.deltas || objects != w.q.objects {
		w.t.Fatalf("%d deltas and %d objects are pending, counted are %d and %d", deltas, objects, w.q.deltas, w.q.objects)
	}
	if w.q.full() != (w.q.roomSignal() != nil) {
		w.t.Fatal("a full queue has room")
	}
}

// finish delivers the rest, and compares the results.
func (w *world) finish() {
	w.flush()
	for !idle(w.q) {
		w.pop(0)
		w.check()
	}
	if got, want := w.consumer.state.String(), w.server.text(w.isListed); got != want {
		w.t.Fatalf("the consumer knows %s\nwant               %s", got, want)
	}
	if w.newest != strconv.Itoa(w.version) || w.done != w.marked {
		w.t.Fatalf("the consumer is at version %s of %d, synced %v of %v", w.newest, w.version, w.done, w.marked)
	}
	same := func(a, b delta) bool { return a == b }
	if w.q.options.Policy != Coalesce && !slices.EqualFunc(w.popped, w.expected, same) {
		w.t.Fatalf("got  %s\nwant %s", text(w.popped), text(w.expected))
	}
	for _, c := range w.copies {
		if !slices.EqualFunc(c.run, c.clone, same) {
			w.t.Fatal("the queue wrote to a shared slice")
		}
	}
}

// TestRandomHistory runs random operations.
func TestRandomHistory(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy.String(), func(t *testing.T) {
			testseed.Each(t, 6, func(t *testing.T, seed uint64) {
				r := rand.New(rand.NewPCG(seed, 0))
				w := newWorld(t, policy)
				w.q.maxRemoved = r.IntN(3) * 5
				// More pops or fewer, for consumers that keep up and that do not.
				pops := r.IntN(4)
				for range 2000 {
					if w.operate(byte(r.IntN(256))); r.IntN(10) < pops {
						w.pop(r.IntN(4))
					}
				}
				w.finish()
			})
		})
	}
}

// FuzzQueue reads each byte as an operation of a world; the first is the policy.
func FuzzQueue(f *testing.F) {
	f.Add([]byte{0, 0x80, 0x00, 0x60, 0xc0, 0x00, 0x04, 0x60, 0x40, 0x60, 0xc0})
	f.Add([]byte{1, 0x80, 0x81, 0x82, 0x83, 0x01, 0x05, 0x61, 0xa0, 0xff, 0x02, 0x60, 0xdf})
	f.Add([]byte{2, 0x80, 0x04, 0x44, 0x04, 0x60, 0xc1, 0xff, 0x80})
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) == 0 {
			return
		}
		w := newWorld(t, policies[int(ops[0])%len(policies)])
		for _, op := range ops[1:min(len(ops), 500)] {
			w.operate(op)
		}
		w.finish()
	})
}

// TestConsumersShareDeltas lets queues of all policies share the deltas of one producer, with independent consumers.
func TestConsumersShareDeltas(t *testing.T) {
	seed := testseed.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	var queues []*Queue[*thing]
	var consumers sync.WaitGroup
	states := make([]model, 2*len(policies))
	const last = "1000000"
	for i := range states {
		q := New[*thing](Options{Policy: policies[i/2], Limit: 20})
		queues = append(queues, q)
		consumers.Go(func() {
			c := &consumer{t: t, state: model{}}
			for b := (Batch[*thing]{}); b.ResourceVersion != last; {
				var err error
				if b, err = q.Pop(t.Context()); err != nil {
					t.Error(err)
					return
				}
				c.apply(&b)
				q.Done(b.Len())
			}
			states[i] = c.state
		})
	}
	server := newWorld(t, Unbounded) // for its deltas
	server.listed = map[string]bool{"0": true, "1": true, "2": true, "3": true}
	for i := range 3000 {
		server.operate(byte(r.IntN(3 << 5)))
		if i%7 > 0 {
			continue
		}
		run := server.run
		server.run = nil
		for _, q := range queues {
			if err := q.WaitForRoom(t.Context()); err != nil {
				t.Fatal(err)
			}
			q.Add(run, strconv.Itoa(server.version))
			q.Stats()
		}
	}
	for _, q := range queues {
		q.Add(server.run, last)
	}
	consumers.Wait()
	for i, state := range states {
		if !maps.Equal(state, server.server) {
			t.Errorf("%s: the consumer knows %s\nwant %s", policies[i/2], state, server.server)
		}
	}
}
