package shards

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// These tests let single writes arrive long after their senders gave up, as proxies and full queues do. What follows is the
// tests that fail if a rule of the package's documentation is broken by hand; TestSimulation with 40 seeds.
//
//	rule and how it was broken                                                   fails
//	1  an owner gives a shard away while its work runs                           TestSimulation, TestTimes
//	1  work starts on a draining shard                                           TestSimulation
//	1  a shard is taken up again while a write of the table may arrive           TestLateTable
//	1  any error, or any table that is read, counts as the end of such a write   TestLateTable
//	1  the table is written without a precondition                               all
//	2  the shards of a living member are taken                                   TestSimulation, TestTimes, TestLateTable
//	2  a name is used again after others may have deleted its Lease              TestLateNameAgain
//	2  a member whose Lease could not be deleted, as it has changed, is gone     TestLateRenewal
//	3  a replica leaves while its work runs                                      TestSimulation
//	5  the table is repaired before all members have said what they have         TestSimulation, TestUnreadableTable
//	5  what they said for another version of the table counts                    TestStaleClaims
//	6  a Lease without label or holder is not the table's                        TestUnmarkedTable, package promises

// lateClient loses the writes of a Lease while it is armed: the first of them arrives when the test says so.
type lateClient struct {
	*leaseClient
	mu     sync.Mutex
	armed  string // the name of the Lease, or "any"
	first  func()
	around func(remove func() error) error // deletions
}

// lost returns true if a write of the Lease is lost.
func (c *lateClient) lost(name string, send func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed != "any" && c.armed != name {
		return false
	}
	if c.first == nil {
		c.first = send
	}
	return true
}

func (c *lateClient) arm(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = name
}

// arrive lets the first lost write arrive.
func (c *lateClient) arrive(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	send := c.first
	c.mu.Unlock()
	if send == nil {
		t.Error("nothing was lost")
		return
	}
	send()
}

// direct returns a client that reaches the server even if this one does not.
func (c *lateClient) direct() *leaseClient { return &leaseClient{api: c.api} }

func (c *lateClient) Create(
	ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	send := func() { _, _ = c.direct().Create(context.WithoutCancel(ctx), lease, o) }
	if c.lost(lease.Name, send) {
		return nil, errBroken
	}
	return c.leaseClient.Create(ctx, lease, o)
}

func (c *lateClient) Update(
	ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	send := func() { _, _ = c.direct().Update(context.WithoutCancel(ctx), lease, o) }
	if c.lost(lease.Name, send) {
		return nil, errBroken
	}
	return c.leaseClient.Update(ctx, lease, o)
}

// armAround arms the other client when this one deletes something: before it sends that, and after it has the answer.
func (c *lateClient) armAround(other *lateClient, before, after string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.around = func(remove func() error) error {
		other.arm(before)
		defer other.arm(after)
		return remove()
	}
}

func (c *lateClient) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	c.mu.Lock()
	around := c.around
	c.mu.Unlock()
	remove := func() error { return c.leaseClient.Delete(ctx, name, o) }
	if around == nil {
		return remove()
	}
	return around(remove)
}

// startLate starts a process whose writes the test can delay.
func (w *world) startLate(arm string) (*process, *lateClient) {
	var client *lateClient
	adjust := w.adjust
	w.adjust = func(p *process) {
		if adjust != nil {
			adjust(p)
		}
		client = &lateClient{leaseClient: p.client, armed: arm}
		p.replica.Client = client
	}
	p := w.start()
	w.adjust = adjust
	return p, client
}

// firstIsLast lets the next three processes have names such that of any two, the one that starts later should have shard 0.
func (w *world) firstIsLast() {
	for ; ; w.made++ {
		var members []member
		for i := range 3 {
			id := processID(w.made + 1 + i)
			members = append(members, member{name: id, identity: id})
		}
		if rendezvous(members[:2], 0) == members[1].name && rendezvous(members, 0) == members[2].name {
			return
		}
	}
}

// TestLateTable gives a shard away by a write that is lost. The one who should have had it goes, so its owner could keep
// it. When the write arrives after all, a third replica must not find the shard free while the owner works on it: either
// the owner has written the table again, or it has not gone on.
func TestLateTable(t *testing.T) {
	for _, rewritten := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) { lateTable(t, rewritten) })
	}
}

func lateTable(t *testing.T, rewritten bool) {
	w := newWorld(t, 1, 1)
	w.firstIsLast()
	w.adjust = func(p *process) { p.takes = func() time.Duration { return 5 * time.Second } }
	owner, client := w.startLate("")
	time.Sleep(15 * time.Second)
	client.arm("group")
	second := w.start()
	time.Sleep(5 * time.Second)
	if rewritten {
		client.arm("")
	}
	second.stop()
	time.Sleep(2 * time.Second)
	if goesOn := len(owner.replica.Held()) == 1; goesOn != rewritten {
		t.Errorf("the table is written again: %v, the owner goes on: %v", rewritten, goesOn)
	}
	for n := range keysPerShard {
		w.change(key{0, n})
	}
	time.Sleep(time.Second)
	owner.setCut(true) // so that it does not notice
	w.api.mu.Lock()
	w.api.breakWatches()
	w.api.mu.Unlock()
	client.arrive(t)
	client.arm("")
	third := w.start()
	time.Sleep(3 * time.Second)
	owner.setCut(false)
	time.Sleep(40 * time.Second)
	if len(third.replica.Held()) != 1 || owner.replica.Stats().Losses > 0 {
		t.Errorf("the third has %v; the first: %+v", third.replica.Held(), owner.replica.Stats())
	}
	w.stopAll()
	w.checkReconciled()
}

// TestLateMember loses what a replica sends for so long that it takes part under another name. Its first Lease is made
// after all: nobody renews it, and it must not own shards until it expires.
func TestLateMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 50)
		w.start()
		time.Sleep(5 * time.Second)
		p, client := w.startLate("any")
		time.Sleep(7 * time.Second)
		client.arm("")
		time.Sleep(20 * time.Second)
		if len(p.replica.Held()) == 0 {
			t.Error("the replica does not take part")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		w.takeLongest()
		client.arrive(t)
		w.watchOwners(ctx)
		longest := w.takeLongest()
		if t.Logf("unowned for %v", longest); longest > time.Second {
			t.Errorf("a shard is unowned for %v: %s", longest, w.describe())
		}
		w.stopAll()
		w.checkReconciled()
	})
}

// slowly makes a client's requests and their answers take a second and a half each.
func slowly(p *process) {
	p.client.delay = func() time.Duration { return 1500 * time.Millisecond }
}

// TestLateRenewal renews a Lease after another replica has decided to delete it, and before that arrives. The shards stay.
func TestLateRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 20)
		owner, client := w.startLate("")
		time.Sleep(5 * time.Second)
		w.adjust = slowly
		_, other := w.startLate("")
		other.armAround(client, "", "")
		time.Sleep(30 * time.Second)
		held := len(owner.replica.Held())
		client.arm("any")
		time.Sleep(time.Minute)
		if st := owner.replica.Stats(); len(owner.replica.Held()) != held || held == 0 || st.Losses != 1 {
			t.Errorf("the owner of %d shards: %+v", held, st)
		}
		w.stopAll()
		w.checkReconciled()
	})
}

// TestLateNameAgain creates a Lease whose replica does not know that. Others give it shards, and delete it as it is not
// renewed. When the replica gets through at last, one of them is about to write the table.
func TestLateNameAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 20)
		w.adjust = slowly
		_, other := w.startLate("")
		time.Sleep(30 * time.Second)
		w.adjust = nil
		p, client := w.startLate("any")
		other.armAround(client, "any", "")
		time.Sleep(time.Second)
		client.arrive(t)
		time.Sleep(time.Minute)
		if st := p.replica.Stats(); len(p.replica.Held()) == 0 || st.Losses > 0 {
			t.Errorf("%+v", st)
		}
		w.stopAll()
		w.checkReconciled()
	})
}
