package deltafifo

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/object"
)

var policies = []Policy{Coalesce, Block, Unbounded}

// describe formats a batch for comparison.
func describe(b Batch[*thing]) string {
	var deltas []delta
	for d := range b.All() {
		deltas = append(deltas, d)
	}
	return strings.TrimSpace(fmt.Sprintf("%s@%s %s", b.Type, b.ResourceVersion, text(deltas)))
}

// drain pops and describes everything that is pending.
func drain(t *testing.T, q *Queue[*thing]) (all []string) {
	t.Helper()
	for !idle(q) {
		all = append(all, describe(pop(t, q)))
	}
	return all
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// TestSharedSlice gives one slice to several queues, whose consumers keep up.
func TestSharedSlice(t *testing.T) {
	for _, policy := range policies {
		q := New[*thing](Options{Policy: policy})
		for range 3 {
			run := added(5)
			q.Add(run, "5")
			b := pop(t, q)
			if &b.Deltas[0] != &run[0] || len(b.Deltas) != 5 {
				t.Errorf("%s: the deltas were copied", policy)
			}
			q.Done(2)
			q.Done(3)
			q.Add(run, "6") // done, though not back in Pop: that keeps up as well
			if b = pop(t, q); &b.Deltas[0] != &run[0] {
				t.Errorf("%s: the deltas were copied after Done", policy)
			}
			q.Done(5)
		}
	}
}

func TestBehind(t *testing.T) {
	a1, a2, a3 := newThing("a", 1, 1), newThing("a", 1, 2), newThing("a", 1, 3)
	fill := func(q *Queue[*thing]) {
		q.Add([]delta{change(object.Added, a1)}, "1")
		pop(t, q)
		q.Add([]delta{update(a1, a2)}, "2")
		q.Add([]delta{change(object.Added, newThing("b", 2, 2))}, "")
		q.Add([]delta{update(a2, a3)}, "3")
		q.Add(nil, "4")
		q.Add(nil, "")
	}
	q := New[*thing](Options{})
	fill(q)
	expect(t, drain(t, q), "Changes@4 Updated:a/u1/3<1 Added:b/u2/2")
	if n := q.Stats().Coalesced; n != 1 {
		t.Errorf("%d coalesced, want 1", n)
	}
	for _, policy := range []Policy{Block, Unbounded} {
		q := New[*thing](Options{Policy: policy})
		fill(q)
		expect(t, drain(t, q), "Changes@2 Updated:a/u1/2<1", "Changes@ Added:b/u2/2", "Changes@4 Updated:a/u1/3<2")
	}
}

func TestBookmarks(t *testing.T) {
	q := New[*thing](Options{})
	q.Add(nil, "7")
	q.Add(nil, "9")
	q.Add(nil, "8")
	expect(t, drain(t, q), "Changes@9")
	q.Mark()
	q.Add(nil, "10")
	expect(t, drain(t, q), "Synced@", "Changes@10")
}

// TestVersionOfMergedDeltas pops more merged deltas than one Pop returns: only the last batch has the version.
func TestVersionOfMergedDeltas(t *testing.T) {
	q := New[*thing](Options{})
	q.Add(added(1), "1")
	pop(t, q)
	q.Add(added(2*maxTake+10), "700")
	for _, want := range []string{"256 ", "256 ", "10 700"} {
		b := pop(t, q)
		if got := fmt.Sprint(len(b.Deltas), " ", b.ResourceVersion); got != want {
			t.Errorf("got a batch of %s, want %s", got, want)
		}
	}
}

// TestLateDeltasMergeIntoThoseThatStay pops the first merged deltas, and changes one of the rest.
func TestLateDeltasMergeIntoThoseThatStay(t *testing.T) {
	q := New[*thing](Options{})
	q.Add(added(1), "")
	pop(t, q)
	run := added(maxTake + 1)
	q.Add(run, "")
	pop(t, q)
	last := run[maxTake].Object
	q.Add([]delta{update(run[0].Object, newThing("n000000", 0, 900)), update(last, newThing(last.Name, maxTake, 901))}, "901")
	expect(t, drain(t, q), "Changes@901 Added:n000256/u256/901 Updated:n000000/u0/900<1")
}

func TestCollectionsComeInOrder(t *testing.T) {
	a1, a2, b1, c1 := newThing("a", 1, 1), newThing("a", 1, 5), newThing("b", 2, 2), newThing("c", 3, 3)
	for _, policy := range policies {
		q := New[*thing](Options{Policy: policy})
		q.Sync(items{a1}, true)
		q.Add([]delta{update(a1, a2)}, "5")
		q.Sync(items{b1}, true)
		q.Sync(items{}, true)
		q.Mark()
		q.Add([]delta{change(object.Added, c1)}, "6")
		if q.Sync(items{a2, b1, c1}, false) {
			t.Errorf("%s: a resync was not skipped", policy)
		}
		if n := q.Stats().Pending; n != 4 {
			t.Errorf("%s: %d pending, want 4", policy, n)
		}
		expect(t, drain(t, q), "Initial@ Added:a/u1/1+initial", "Changes@5 Updated:a/u1/5<1", "Initial@ Added:b/u2/2+initial", "Initial@", "Synced@",
			"Changes@6 Added:c/u3/3")
		if !q.Sync(items{a2}, false) || q.Sync(items{a2}, false) {
			t.Errorf("%s: want one resync", policy)
		}
		expect(t, drain(t, q), "Resync@ Sync:a/u1/5<5")
	}
}

// TestDeltasMergeBehindACollection has deltas of one key before, between and after collections.
func TestDeltasMergeBehindACollection(t *testing.T) {
	a1, a2, a3, a4 := newThing("a", 1, 1), newThing("a", 1, 2), newThing("a", 1, 3), newThing("a", 1, 4)
	q := New[*thing](Options{})
	q.Sync(items{a1}, true)
	q.Add([]delta{update(a1, a2), update(a2, a3)}, "3")
	q.Sync(items{a3}, true)
	q.Add([]delta{update(a3, a4)}, "4")
	gone := change(object.Deleted, a4)
	gone.Old = a4
	q.Add([]delta{gone}, "5")
	expect(t, drain(t, q), "Initial@ Added:a/u1/1+initial", "Changes@3 Updated:a/u1/3<1", "Initial@ Added:a/u1/3+initial", "Changes@5 Deleted:a/u1/4<3")
}

// asking is a collection that records which objects it is asked for.
type asking struct {
	items
	asked *int
}

func (a asking) All() iter.Seq2[object.Key, *thing] {
	*a.asked++
	return a.items.All()
}

// TestDeletionsComeInOrder with everything else, and are never merged; the collection is asked for
// its objects when its turn comes.
func TestDeletionsComeInOrder(t *testing.T) {
	a1, a2, b1, again := newThing("a", 1, 1), newThing("a", 1, 2), newThing("b", 2, 2), newThing("a", 3, 4)
	for _, policy := range policies {
		q := New[*thing](Options{Policy: policy, Limit: 2})
		asked := 0
		q.Sync(items{a1, b1}, true)
		q.Add([]delta{update(a1, a2)}, "2")
		q.Delete(asking{items{a2, b1}, &asked}, "3")
		q.Add([]delta{change(object.Added, again)}, "4")
		if n := q.Stats().Pending; asked > 0 || n != 6 || q.Full() != (policy == Block) {
			t.Errorf("%s: asked %d times, %d pending, full %t", policy, asked, n, q.Full())
		}
		c := consumer{t: t, state: model{}}
		for range 3 {
			b := pop(t, q)
			c.apply(&b)
		}
		if asked != 1 || len(c.state) != 0 {
			t.Errorf("%s: asked %d times, left with %v", policy, asked, c.state)
		}
		expect(t, drain(t, q), "Changes@4 Added:a/u3/4")
		q.Delete(items{again}, "5")
		expect(t, drain(t, q), "Deletions@5 Deleted:a/u3/4<4+missed")
		q.Close()
		if q.Delete(items{again}, "6"); q.Stats().Pending != 0 {
			t.Errorf("%s: something is pending in a closed queue", policy)
		}
	}
}

// TestRefilterComesInOrder with everything else, whatever is pending, and is never merged; one that
// is pending stands for all.
func TestRefilterComesInOrder(t *testing.T) {
	a1, a2, a3, b1 := newThing("a", 1, 1), newThing("a", 1, 2), newThing("a", 1, 3), newThing("b", 2, 4)
	for _, policy := range policies {
		q := New[*thing](Options{Policy: policy, Limit: 2})
		asked := 0
		q.Add([]delta{change(object.Added, a1)}, "1")
		q.Add([]delta{update(a1, a2)}, "2")
		q.Refilter(asking{items{a2}, &asked})
		q.Add([]delta{update(a2, a3)}, "3")
		q.Refilter(asking{items{a3}, &asked})
		q.Add([]delta{change(object.Added, b1)}, "4")
		if n := q.Stats().Pending; asked > 0 || n != 5 {
			t.Errorf("%s: asked %d times, %d pending", policy, asked, n)
		}
		want := []string{"Changes@1 Added:a/u1/1", "Changes@2 Updated:a/u1/2<1", "Refilter@ Sync:a/u1/2<2"}
		if policy == Coalesce {
			want = append(want, "Changes@4 Updated:a/u1/3<2 Added:b/u2/4")
		} else {
			want = append(want, "Changes@3 Updated:a/u1/3<2", "Changes@4 Added:b/u2/4")
		}
		expect(t, drain(t, q), want...)
		q.Refilter(items{a3, b1}) // the one before is in progress or done
		expect(t, drain(t, q), "Refilter@ Sync:a/u1/3<3 Sync:b/u2/4<4")
		q.Close()
		if q.Refilter(items{a3}); q.Stats().Pending != 0 {
			t.Errorf("%s: something is pending in a closed queue", policy)
		}
	}
}

func TestReplaceSupersedes(t *testing.T) {
	for _, policy := range policies {
		q := New[*thing](Options{Policy: policy})
		q.Add(added(1), "1")
		q.Add(added(3), "3")
		q.Sync(items{newThing("x", 7, 7)}, true)
		q.Mark()
		q.Replace(items{newThing("b", 2, 5)}, "6")
		q.Add([]delta{change(object.Added, newThing("c", 3, 7))}, "7")
		if got, want := q.Stats().Pending, 2; got != want {
			t.Errorf("%s: %d pending, want %d", policy, got, want)
		}
		expect(t, drain(t, q), "Replace@6 Replaced:b/u2/5", "Synced@", "Changes@7 Added:c/u3/7")
	}
}

// TestWhatCameAndWentIsNothing leaves nothing behind that would suppress a resync.
func TestWhatCameAndWentIsNothing(t *testing.T) {
	q := New[*thing](Options{})
	o := newThing("a", 1, 1)
	q.Add(added(1), "")
	pop(t, q)
	q.Add([]delta{change(object.Added, o), change(object.Deleted, o)}, "")
	if s := q.Stats(); s.Pending != 1 || s.Coalesced != 1 || !idle(q) {
		t.Errorf("%+v", s)
	}
	if !q.Sync(items{o}, false) {
		t.Error("the resync was skipped")
	}
}

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[*thing](Options{})
		expectStats := func(want Stats) {
			t.Helper()
			if got := q.Stats(); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		q.Mark()
		expectStats(Stats{})
		pop(t, q)
		q.Add(added(3), "")
		time.Sleep(time.Second)
		q.Add(added(2), "")
		expectStats(Stats{Pending: 5, Oldest: time.Second})
		pop(t, q)
		time.Sleep(time.Second)
		q.Add(added(1), "")
		expectStats(Stats{Pending: 5, Oldest: 2 * time.Second, Coalesced: 1})
		q.Done(1)
		expectStats(Stats{Pending: 4, Oldest: 2 * time.Second, Coalesced: 1})
		q.Done(2)
		expectStats(Stats{Pending: 2, Oldest: time.Second, Coalesced: 1})
		if b := pop(t, q); time.Since(b.Since) != time.Second {
			t.Errorf("the batch is %v old", time.Since(b.Since))
		}
		q.Sync(items{newThing("a", 1, 1), newThing("b", 1, 1)}, true)
		expectStats(Stats{Pending: 4, Oldest: time.Second, Coalesced: 1})
		pop(t, q)
		time.Sleep(time.Minute)
		expectStats(Stats{Pending: 2, Oldest: time.Minute, Coalesced: 1})
		q.Done(2)
		expectStats(Stats{Coalesced: 1})
		q.Add(added(1), "")
		time.Sleep(time.Hour)
		expectStats(Stats{Pending: 1, Oldest: time.Hour, Coalesced: 1})
		pop(t, q)
		go q.Pop(t.Context()) // ends the batch
		synctest.Wait()
		expectStats(Stats{Coalesced: 1})
		q.Close()
	})
}

func TestClosedQueueHoldsNothing(t *testing.T) {
	for _, policy := range policies {
		q := New[*thing](Options{Policy: policy})
		freed := make(chan struct{}, 2)
		for i := range 2 {
			o := newThing(fmt.Sprint(i), i, i)
			runtime.AddCleanup(o, func(int) { freed <- struct{}{} }, 0)
			q.Add([]delta{change(object.Added, o)}, "1")
		}
		q.Close()
		q.Close()
		q.Add(added(1), "1")
		q.Replace(items{newThing("a", 1, 1)}, "1")
		q.Mark()
		if q.Sync(items{}, true) || q.Stats() != (Stats{}) {
			t.Errorf("%s: a closed queue takes something: %+v", policy, q.Stats())
		}
		if _, err := q.Pop(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: got %v", policy, err)
		}
		for deadline := time.Now().Add(10 * time.Second); len(freed) < 2 && time.Now().Before(deadline); {
			runtime.GC()
		}
		if len(freed) < 2 {
			t.Errorf("%s: %d of 2 objects are freed", policy, len(freed))
		}
		runtime.KeepAlive(q)
	}
}

func TestQueueGivesMemoryBack(t *testing.T) {
	for _, policy := range policies {
		q := New[*thing](Options{Policy: policy})
		q.Add(added(1), "")
		pop(t, q)
		for _, d := range added(10_000) {
			q.Add([]delta{d}, "")
		}
		for !idle(q) {
			pop(t, q)
		}
		popNothing(t, q)
		if cap(q.entries.items) > smallBuffer || cap(q.buffer) > smallBuffer || q.spare != nil && q.spare.capacity() > smallBuffer {
			t.Errorf("%s: room for %d entries and %d deltas is left", policy, cap(q.entries.items), cap(q.buffer))
		}
	}
}

// popNothing does what Pop does before it waits.
func popNothing(t *testing.T, q *Queue[*thing]) {
	t.Helper()
	if _, ok, err := q.take(); ok || err != nil {
		t.Fatalf("something is pending, %v", err)
	}
}

func TestWarmQueueDoesNotAllocate(t *testing.T) {
	a, b := newThing("a", 1, 1), newThing("a", 1, 2)
	run := []delta{update(a, b), change(object.Sync, newThing("b", 1, 2))}
	for _, policy := range policies {
		q := New[*thing](Options{Policy: policy})
		ctx := t.Context()
		allocs := testing.AllocsPerRun(100, func() {
			for range 3 {
				q.Add(run, "2")
			}
			for q.Stats().Pending > len(run) {
				if _, err := q.Pop(ctx); err != nil {
					t.Fatal(err)
				}
			}
		})
		if allocs > 0 {
			t.Errorf("%s: %v allocations for a run", policy, allocs)
		}
	}
}

// TestNames covers the texts.
func TestNames(t *testing.T) {
	got := fmt.Sprint(Coalesce, Block, Unbounded, Unbounded+1, Policy(9), " ", Changes, Replace, Initial, Resync, Synced, Deletions, Refilter, Refilter+1, BatchType(0))
	if want := "Coalesce Block Unbounded unknown unknown Changes Replace Initial Resync Synced Deletions Refilter BatchType(8) BatchType(0)"; strings.Join(strings.Fields(got), " ") != want {
		t.Errorf("got %s", got)
	}
}

// TestHungConsumerDoesNotAccumulateCollections: objects, of ever new names or of the same ones,
// come and go many times, and at least one of the two as a collection.
func TestHungConsumerDoesNotAccumulateCollections(t *testing.T) {
	const n, rounds = 600, 200
	for name, c := range map[string]struct {
		add, remove func(q *Queue[*thing], deltas []delta, objects items)
		fresh       bool
	}{
		"deletions": {addDeltas, deleteAll, true},
		"lists":     {listAll, removeDeltas, false},
		"both":      {listAll, deleteAll, false},
		"new lists": {listAll, deleteAll, true},
	} {
		t.Run(name, func(t *testing.T) {
			q := New[*thing](Options{})
			kept := newThing("kept", 1, 1)
			q.Add([]delta{change(object.Added, kept)}, "1")
			most := 0
			for round := range rounds {
				var deltas []delta
				var objects items
				for i := range n {
					name := fmt.Sprint(i)
					if c.fresh {
						name = fmt.Sprint(round, "-", i)
					}
					o := newThing(name, round*n+i+2, round*n+i+2)
					deltas, objects = append(deltas, change(object.Added, o)), append(objects, o)
				}
				c.add(q, deltas, objects)
				c.remove(q, deltas, objects)
				most = max(most, q.Stats().Pending)
			}
			if limit := 6 * (n + maxRemoved); most > limit {
				t.Errorf("%d deltas were pending, want at most %d", most, limit)
			}
			consumer := &consumer{t: t, state: model{}}
			for !idle(q) {
				b := pop(t, q)
				consumer.apply(&b)
			}
			if len(consumer.state) != 1 || consumer.state[object.KeyOf(kept)] != kept {
				t.Errorf("the consumer knows %s", consumer.state)
			}
		})
	}
}

func addDeltas(q *Queue[*thing], deltas []delta, _ items) { q.Add(deltas, "") }

func removeDeltas(q *Queue[*thing], deltas []delta, objects items) {
	gone := slices.Clone(deltas)
	for i := range gone {
		gone[i].Type, gone[i].Old = object.Deleted, objects[i]
	}
	q.Add(gone, "")
}

func listAll(q *Queue[*thing], _ []delta, objects items)   { q.Sync(objects, true) }
func deleteAll(q *Queue[*thing], _ []delta, objects items) { q.Delete(objects, "") }
