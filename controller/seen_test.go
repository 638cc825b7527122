package controller

import (
	"iter"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/workqueue"
)

// shownCache is a cache of pods that shows what a test says.
type shownCache struct {
	resource  string // "pods" if empty
	now       string
	rewritten uint64
	without   bool // without the namespace
	shows     map[string]state
	leavesOut bool // what it is asked about
	cannotSay bool // whether it covers something
	host      string
	asked     int // how often for its version
}

func (c *shownCache) name() string { return c.resource }

func (c *shownCache) tracks(r schema.GroupResource) bool {
	return r.Resource == c.resource || c.resource == "" && r.Resource == "pods"
}

func (c *shownCache) version(string) (now string, rewritten uint64) {
	c.asked++
	return c.now, c.rewritten
}

func (c *shownCache) state(key object.Key) (state, bool) {
	s, ok := c.shows[key.Name]
	return s, ok
}

func (c *shownCache) covers(metav1.Object) (covers, known bool) { return !c.leavesOut, !c.cannotSay }
func (c *shownCache) hasNamespace(string) bool                  { return !c.without }
func (c *shownCache) held(string) iter.Seq[metav1.Object]       { return func(func(metav1.Object) bool) {} }

func (c *shownCache) server() *url.URL {
	if c.host == "" {
		return nil
	}
	return &url.URL{Scheme: "https", Host: c.host}
}

// of returns an expectation of the pod "a" with the uid "u" at version 10.
func of(w want, change ...func(*expectation)) *expectation {
	e := &expectation{want: w, resource: schema.GroupResource{Resource: "pods"}, object: metav1.ObjectMeta{
		Namespace: "default", Name: "a", UID: "u", ResourceVersion: "10",
	}}
	for _, c := range change {
		c(e)
	}
	return e
}

func named(e *expectation)     { e.object.UID = "" }
func guessed(e *expectation)   { e.guessed = true }
func certain(e *expectation)   { e.certain = true }
func unlabeled(e *expectation) { e.unlabeled = true }
func after(uid types.UID) func(*expectation) {
	return func(e *expectation) { e.before = []types.UID{uid} }
}

// at returns a cache that is current to a version, and holds "a" in a state, or not at all.
func at(now string, held ...state) *shownCache {
	c := &shownCache{now: now, shows: map[string]state{}}
	for _, s := range held {
		c.shows["a"] = s
	}
	return c
}

// TestSeen has the model of docs/read-your-writes.md case by case.
func TestSeen(t *testing.T) {
	leaving, dying := state{"u", "11", true, false}, state{"u", "11", true, true}
	alive, other := state{"u", "11", false, true}, state{"v", "12", false, true}
	without, unsynced := &shownCache{without: true}, &shownCache{}
	leavesOut, cannotSay := at("12"), at("9")
	leavesOut.leavesOut, cannotSay.cannotSay = true, true
	restored := at("3")
	restored.rewritten = 1
	namespaces := func(e *expectation) { e.resource.Resource = "namespaces" }
	for i, test := range []struct {
		e    *expectation
		c    *shownCache
		want verdict
	}{
		{of(present), at("9"), behind},
		{of(present), at("10"), past},
		{of(present), at("9", alive), shown}, // not current to it, but shows it
		{of(present), at("9", state{"u", "8", false, true}), behind},
		{of(present), at("9", state{"t", "8", false, true}), behind}, // a predecessor
		{of(present), at("9", other), shown},                         // a successor
		{of(present), cannotSay, behind},
		{of(present), unsynced, behind},
		{of(present), without, shown},
		{of(present), restored, past},
		{of(present, unlabeled), leavesOut, past},
		{of(gone), at("12"), shown}, // and not for good: it may hold it later
		{of(gone), at("9"), behind},
		{of(gone), at("12", alive), shown}, // something holds up its end
		{of(gone), at("12", dying), shown},
		{of(gone), at("12", leaving), behind},
		{of(gone, namespaces), at("12", leaving), shown}, // its spec may hold it up
		{of(gone, certain), at("12", dying), behind},
		{of(gone), at("12", state{"u", "10", false, true}), behind},
		{of(gone), at("12", other), shown},
		{of(gone, after("v")), at("12", other), behind}, // known to be a predecessor
		{of(ending), at("12"), shown},
		{of(ending, named), at("12"), past}, // another one may come
		{of(gone, named), at("12"), shown},
		{of(ending), at("12", dying), shown},
		{of(ending), at("12", alive), behind},
		{of(ending, guessed), at("12"), unclear},
		{of(ending, guessed), at("12", other), unclear},
		{of(ending, guessed, named), at("12", alive), unclear},
		{of(absent), at("12"), shown},
		{of(absent), at("12", other), unclear},
		{of(absent, after("v")), at("12", other), behind},
		{of(unknown), at("12"), unclear},
		{of(unknown), without, shown},
		{of(unknown), unsynced, behind},
	} {
		if got := test.e.seen(test.c); got != test.want {
			t.Errorf("case %d: %s in a cache at %q with %v: %v, want %v",
				i, test.e, test.c.now, test.c.shows, got, test.want)
		}
	}
	leavesOut.now = "9"
	if got := of(gone, unlabeled).seen(leavesOut); got != unclear {
		t.Errorf("without its labels: %v", got)
	}
	if got := of(gone).seen(leavesOut); got != shown {
		t.Errorf("left out by labels: %v", got)
	}
}

// testGate is a gate of the caches.
func testGate(caches ...cacheView) (g *gate[string], enqueued *[]string) {
	enqueued = new([]string)
	enqueue := func(key string, _ workqueue.Priority) { *enqueued = append(*enqueued, key) }
	priority := func(string) workqueue.Priority { return workqueue.Normal }
	g = newGate(time.Hour, priority, enqueue, func(missedWrite[string]) {})
	g.views = func() []cacheView { return caches }
	return g, enqueued
}

// TestOtherCachesAreNotAsked: a write concerns only the caches of its resource, in its cluster.
func TestOtherCachesAreNotAsked(t *testing.T) {
	own, maps, elsewhere := at("9"), at("1"), at("1")
	maps.resource, elsewhere.host, own.host = "configmaps", "b", "a"
	g, enqueued := testGate(own, maps, elsewhere)
	e := of(present)
	e.from = &origin{scheme: "https", host: "a", next: time.Now().Add(time.Hour)}
	g.foreign = map[foreignCache]*relation{
		e.from.foreign(elsewhere): {cluster: otherCluster, until: time.Now().Add(time.Hour)},
	}
	e.created = true
	g.add("key", e)
	if maps.asked > 0 {
		t.Error("the version of a cache of another resource was followed")
	}
	if !g.blocks("key") {
		t.Fatal("the key does not wait for its own cache")
	}
	own.now, own.shows["a"] = "10", state{"u", "10", false, true}
	if g.comeBack() > 0 || len(*enqueued) > 0 || g.blocks("key") {
		t.Errorf("seen, and yet blocked, or back: %v", *enqueued)
	}
	if maps.asked > 0 {
		t.Error("a cache of another resource was asked")
	}
	clear(g.foreign)
	g.add("other", e)
	if !g.blocks("other") {
		t.Error("nobody knows yet whether a cache follows the server of the write, and the key does not wait")
	}
	before := own.asked
	g.add("reported", of(present, func(e *expectation) { e.in = own }))
	if own.asked == before {
		t.Error("a cache is not followed from the report of a write on")
	}
}

// TestMissedCreations: a key comes back if its cache is past the creation without the object, and for nothing else.
func TestMissedCreations(t *testing.T) {
	created := func(e *expectation) { e.created = true }
	for name, test := range map[string]struct {
		e    *expectation
		c    *shownCache
		back int
	}{
		"held":        {of(present, created), at("12", state{"u", "10", false, true}), 0},
		"not held":    {of(present, created), at("12"), 1},
		"replaced":    {of(present, created), at("12", state{"v", "11", false, true}), 1},
		"not created": {of(present), at("12"), 0},
		"deleted":     {of(gone), at("12"), 0},
	} {
		g, enqueued := testGate(test.c)
		now := *test.c
		test.c.now, test.c.shows = "9", nil
		g.add("key", test.e)
		if left := g.comeBack(); len(*enqueued) > 0 || left > 0 != test.e.created {
			t.Errorf("%s: back before the cache has seen it; %d left", name, left)
		}
		*test.c = now
		if left := g.comeBack(); len(*enqueued) != test.back || left > 0 {
			t.Errorf("%s: back %d times, %d left", name, len(*enqueued), left)
		}
	}
}

// TestOwnDeletions: a key does not come back for what its own reconcile has created and deleted, but for the rest.
func TestOwnDeletions(t *testing.T) {
	for _, survivor := range []types.UID{"u", "v"} {
		c := at("9")
		g, enqueued := testGate(c)
		g.add("key", of(present, func(e *expectation) { e.created = true }))
		g.add("key", of(gone, func(e *expectation) { e.object.UID = survivor }))
		c.now = "12"
		if g.comeBack(); (len(*enqueued) > 0) != (survivor != "u") {
			t.Errorf("deleted %s: back %d times", survivor, len(*enqueued))
		}
	}
}

// TestImplied: a write stands for earlier ones of which the caches show as much, and for no others.
func TestImplied(t *testing.T) {
	both := at("9")
	later := of(present, func(e *expectation) { e.object.ResourceVersion = "11" })
	another := of(present, func(e *expectation) { e.object.UID, e.object.Name, e.object.ResourceVersion = "v", "b", "11" })
	for name, test := range map[string]struct {
		e, other *expectation
		implies  bool
	}{
		"a later state":            {later, of(present), true},
		"an earlier state":         {of(present), later, false},
		"of another object":        {another, of(present), true},
		"deleted by name before":   {later, of(ending, named), true},
		"another name was deleted": {another, of(ending, named), false},
		"gone":                     {later, of(gone), false},
		"is gone":                  {of(gone), of(present), false},
	} {
		if got := test.e.implies(test.other, []cacheView{both}); got != test.implies {
			t.Errorf("%s: %v", name, got)
		}
	}
	maps := at("9")
	maps.resource, maps.leavesOut = "configmaps", true
	if !another.implies(of(present), []cacheView{both, maps}) {
		t.Error("a cache of another resource was asked")
	}
	leaves := at("9")
	leaves.leavesOut = true
	if !later.implies(of(present), []cacheView{leaves}) {
		t.Error("an object that the cache does not show has changed, and both are expected")
	}
	if another.implies(of(present), []cacheView{leaves}) {
		t.Error("an object that the cache leaves out says nothing of another")
	}
}

// TestImpliedIsKept: what a write stands for is kept beside it, each once, unless it is of the same object.
func TestImpliedIsKept(t *testing.T) {
	var w writes
	version := 10
	write := func(uid types.UID) *expectation {
		version++
		return of(present, func(e *expectation) {
			e.object.UID, e.object.Name, e.object.ResourceVersion = uid, string(uid), strconv.Itoa(version)
		})
	}
	for range 20 {
		for _, uid := range []types.UID{"u", "v", "w", "w"} {
			w.add(write(uid), []cacheView{at("9")})
		}
	}
	var all []types.UID
	for e := range w.every() {
		all = append(all, e.object.UID)
	}
	if want := []types.UID{"u", "v", "w"}; len(w.all) != 1 || !slices.Equal(all, want) {
		t.Errorf("%v, of which %d are checked", all, len(w.all))
	}
	for range w.every() {
		break
	}
	for e := range w.every() {
		if e.object.UID == "w" {
			break
		}
	}
}

// TestContradicts: whether the server has something else than what a write has left.
func TestContradicts(t *testing.T) {
	is := func(uid types.UID, version string) state { return state{uid, version, false, true} }
	for i, test := range []struct {
		e           *expectation
		now         state
		exists      bool
		contradicts bool
	}{
		{of(present), state{}, false, true},
		{of(present), is("u", "9"), true, true},
		{of(present), is("u", "10"), true, false},
		{of(present), is("v", "11"), true, false},
		{of(gone), state{}, false, false},
		{of(gone), is("u", "10"), true, true},
		{of(gone), is("u", "11"), true, false},
		{of(gone), is("v", "9"), true, false},
		{of(gone, named), is("v", "9"), true, true},
		{of(ending), is("u", "11"), true, true},
		{of(ending), state{"u", "11", true, true}, true, false},
	} {
		if got := test.e.contradicts(test.now, test.exists); got != test.contradicts {
			t.Errorf("case %d: %s, and %v: %v", i, test.e, test.now, got)
		}
	}
}

// TestExpiredAndUnclear: once its time is over, a key whose write could not be looked up goes on, and that is reported.
func TestExpiredAndUnclear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var missed []string
		g, _ := testGate(at("12"))
		g.onMissed = func(m missedWrite[string]) { missed = append(missed, m.key) }
		g.add("key", of(unknown))
		if !g.blocks("key") || len(missed) > 0 {
			t.Fatal("the key does not wait for a look-up")
		}
		time.Sleep(2 * time.Hour)
		if g.blocks("key") || len(missed) != 1 {
			t.Errorf("reported: %v", missed)
		}
	})
}

// TestFound: what a look-up finds of a lost write may have been created by it.
func TestFound(t *testing.T) {
	found := of(present).object
	if e := of(unknown).found(&found, nil); !e.created || e.want != present || e.object.UID != "u" {
		t.Errorf("%+v", e)
	}
	if e := of(present).found(&found, nil); e.created {
		t.Errorf("%+v", e)
	}
	if e := of(present, func(e *expectation) { e.created = true }).found(&found, nil); !e.created {
		t.Errorf("%+v", e)
	}
}

// TestFoundAbsent: a look-up that finds no object also says that the one with the known uid is gone.
func TestFoundAbsent(t *testing.T) {
	e := of(present).found(nil, nil)
	if got := e.seen(at("12", state{"u", "10", false, true})); got != behind {
		t.Errorf("the object itself: %v", got)
	}
	if got := e.seen(at("12", state{"v", "11", false, true})); got != unclear {
		t.Errorf("a successor: %v", got)
	}
}

// TestSettledKeysAreForgotten: many keys with nothing to wait for take no memory.
func TestSettledKeysAreForgotten(t *testing.T) {
	c := at("12")
	g, _ := testGate(c)
	for i := range 10 * minSweep {
		g.add(string(rune(i)), of(present))
	}
	if n := len(g.pending); n > 2*minSweep {
		t.Errorf("%d keys are kept", n)
	}
	c.now = "9"
	g, _ = testGate(c)
	for i := range 3 * minSweep {
		g.add(string(rune(i)), of(present))
	}
	if n := len(g.pending); n != 3*minSweep {
		t.Errorf("of %d keys that have to wait, %d are kept", 3*minSweep, n)
	}
	c.now = "12"
	g, _ = testGate(c)
	for i := range 3 * minSweep {
		g.add(string(rune(i)), of(gone)) // which the cache may hold later
	}
	if n := len(g.pending); n != 3*minSweep {
		t.Errorf("of %d keys that may have to wait, %d are kept", 3*minSweep, n)
	}
}
