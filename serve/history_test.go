package serve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/serve/internal/replica"
	"github.com/tidings/tidings/tidingstest"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

func configMap(name, label string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, Labels: map[string]string{"half": label},
	}}
}

// fixture is a test server with replicas in front of it.
type fixture struct {
	*tidingstest.Server
	config   *rest.Config
	replicas []*running
}

func newFixture(t testing.TB, replicas int, options tidingstest.ServerOptions, o Options) *fixture {
	t.Helper()
	return newReviewed(t, &reviewer{}, replicas, options, o)
}

// newReviewed is newFixture with a reviewer.
func newReviewed(t testing.TB, v *reviewer, replicas int, options tidingstest.ServerOptions, o Options) *fixture {
	t.Helper()
	options.Loopback = true
	f := &fixture{Server: tidingstest.NewServer(t, options)}
	f.config = v.start(t, f.Server)
	o.Config = f.config
	if o.Resources == nil {
		o.Resources = []string{"configmaps"}
	}
	for range replicas {
		f.replicas = append(f.replicas, startReplica(t, o))
	}
	return f
}

// maps returns a client for the config maps of a replica, or of the server for -1.
func (f *fixture) maps(i int) typedv1.ConfigMapInterface {
	c := as(f.config, "user")
	if i >= 0 {
		c = f.replicas[i].config(c)
	}
	c.ContentConfig = rest.ContentConfig{
		ContentType:        "application/vnd.kubernetes.protobuf",
		AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
	}
	if i%2 == 0 {
		c.ContentConfig = rest.ContentConfig{ContentType: "application/json"}
	}
	return typedv1.NewForConfigOrDie(c).ConfigMaps("default")
}

// synced waits until all replicas have what the server has.
func (f *fixture) synced(t testing.TB) {
	t.Helper()
	f.SendBookmarks(configMaps)
	for _, r := range f.replicas {
		eventually(t, func() bool {
			return replica.Format(r.resources[0].Collection.Stats().Version) == f.ResourceVersion()
		})
	}
}

// trouble is what happens to the server while clients move.
type trouble string

const (
	noTrouble  trouble = "quiet"
	cuts       trouble = "cuts"     // broken connections, and history that the server has lost
	rewritings trouble = "restores" // the server goes back to a backup
)

// TestClientsMove has clients that watch at one replica, then at another or at the server, in random order and with
// cuts, while objects change. Each follows what happens to its part of the objects exactly: in order, no change twice,
// none left out; and none needs a list but when the server has lost its history or was restored. Once all know of a
// restore, none sees what it has undone.
func TestClientsMove(t *testing.T) {
	for _, trouble := range []trouble{noTrouble, cuts, rewritings} {
		t.Run(string(trouble), func(t *testing.T) { testClientsMove(t, trouble) })
	}
}

func testClientsMove(t *testing.T, trouble trouble) {
	random := testseed.Rand(t)
	f := newFixture(t, 2, tidingstest.ServerOptions{}, Options{
		BookmarkInterval: 50 * time.Millisecond, MemoryBudget: []int64{0, budget}[random.IntN(2)],
	})
	f.Load(configMap("0", "a"), configMap("1", "b"))
	f.synced(t)
	var done atomic.Bool
	defer done.Store(true) // also if it fails: the clients would keep all later tests waiting
	var clients sync.WaitGroup
	var restores atomic.Int64
	movers := make([]*mover, 8)
	for i := range movers {
		m := &mover{
			fixture: f, t: t, random: rand.New(rand.NewPCG(random.Uint64(), 0)), restores: &restores,
			label: []string{"", "half=a", "half=b", "half!=a"}[i%4],
		}
		movers[i] = m
		clients.Go(func() { m.run(&done) })
	}
	for i := range 600 {
		f.change(random, "")
		switch {
		case trouble == cuts && i%40 == 39:
			f.disturb(random)
		case trouble == rewritings && i%300 == 299:
			f.rewrite(random, movers, &restores)
		}
		time.Sleep(time.Duration(random.IntN(4)) * time.Millisecond)
	}
	done.Store(true)
	clients.Wait()
	lists := 0
	for i, m := range movers {
		lists += m.lists
		if trouble == noTrouble && m.lists > 1 {
			t.Errorf("client %d listed %d times", i, m.lists)
		}
	}
	if trouble == rewritings && lists <= len(movers) {
		t.Errorf("no client noticed any of %d restores", restores.Load())
	}
}

// undone is the annotation of objects that a later restore undoes, with the number of that restore.
const undone = "undone-by"

// change changes a random object. undoneBy is the restore that undoes it; "" if none does.
func (f *fixture) change(random *rand.Rand, undoneBy string) {
	name, label := strconv.Itoa(random.IntN(12)), []string{"a", "b"}[random.IntN(2)]
	_, exists := f.Versions(configMaps)[object.Key{Namespace: "default", Name: name}]
	o := configMap(name, label)
	if undoneBy != "" {
		o.Annotations = map[string]string{undone: undoneBy}
	}
	switch {
	case exists && random.IntN(3) == 0:
		f.Delete(o)
	case exists:
		f.Update(o)
	default:
		f.Create(o)
	}
}

// rewrite restores the server from a backup, and waits until the replicas and all clients have found out. Until then
// nothing is changed: a server, the real one as well, does not notice when a client goes on from a version that it has
// assigned again since.
func (f *fixture) rewrite(random *rand.Rand, movers []*mover, restores *atomic.Int64) {
	t := movers[0].t
	backup := f.Snapshot()
	for range 1 + random.IntN(20) {
		f.change(random, strconv.FormatInt(restores.Load()+1, 10))
		time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
	}
	f.synced(t) // a replica that has not seen the end of the old history would not know its versions
	if random.IntN(2) == 0 {
		f.Restore(backup)
	} else {
		f.Stop()
		f.Restore(backup)
		f.Start()
	}
	last, err := strconv.ParseUint(f.ResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range f.replicas {
		eventually(t, func() bool { return r.resources[0].Collection.Stats().Version == last })
	}
	restores.Add(1)
	for _, m := range movers { // a step from before may still get what is undone
		eventually(t, func() bool { return m.known.Load() == restores.Load() && m.position.Load() <= last })
	}
}

// disturb makes something go wrong.
func (f *fixture) disturb(random *rand.Rand) {
	switch random.IntN(3) {
	case 0:
		f.BreakConnections()
	case 1:
		f.Compact() // a replica that reconnects has to list
		f.BreakConnections()
	default:
		f.replicas[random.IntN(len(f.replicas))].http.CloseClientConnections()
	}
}

// mover is a client that moves between replicas.
type mover struct {
	*fixture
	t        *testing.T
	random   *rand.Rand
	label    string        // selector
	position atomic.Uint64 // the version it has seen; 0 before the first list, and when it has to list again
	state    map[string]string
	lists    int
	restores *atomic.Int64 // how many restores the replicas know of
	known    atomic.Int64  // of these, when the step began
}

func (m *mover) run(done *atomic.Bool) {
	for !done.Load() {
		m.step(time.Duration(m.random.IntN(60)) * time.Millisecond)
	}
	deadline := time.Now().Add(20 * time.Second)
	for !maps.Equal(m.state, m.wanted()) {
		if time.Now().After(deadline) {
			m.t.Errorf("%q at %d: %v, want %v at %s", m.label, m.position.Load(), m.state, m.wanted(),
				m.ResourceVersion())
			return
		}
		m.step(200 * time.Millisecond)
	}
}

// wanted is the state that the server has for this client.
func (m *mover) wanted() map[string]string {
	wanted := map[string]string{}
	for _, o := range m.Objects(configMaps) {
		label := o.GetLabels()["half"]
		if m.label == "" || m.label == "half="+label || m.label == "half!=a" && label != "a" {
			wanted[o.GetName()] = m.stateOf(o)
		}
	}
	return wanted
}

// stateOf tells states apart, also those of different histories.
func (m *mover) stateOf(o object.Object) string {
	return o.GetResourceVersion() + " " + o.GetLabels()["half"] + o.GetAnnotations()[undone]
}

// step watches somewhere for a while.
func (m *mover) step(d time.Duration) {
	ctx, cancel := context.WithTimeout(m.t.Context(), d)
	defer cancel()
	m.known.Store(m.restores.Load())
	at := m.random.IntN(3) - 1
	client := m.maps(at)
	position := m.position.Load()
	if position == 0 {
		m.list(client, at)
		return
	}
	w, err := client.Watch(ctx, metav1.ListOptions{
		ResourceVersion: replica.Format(position), LabelSelector: m.label, AllowWatchBookmarks: true,
	})
	if err != nil {
		return // the connection was broken
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if !m.see(e, at) {
			return
		}
	}
}

func (m *mover) list(client typedv1.ConfigMapInterface, at int) {
	ctx, cancel := context.WithTimeout(m.t.Context(), 10*time.Second)
	defer cancel()
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: m.label})
	if err != nil {
		return
	}
	m.lists++
	m.state = map[string]string{}
	for i := range list.Items {
		m.put(&list.Items[i], at)
	}
	version, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		m.t.Error(err)
	}
	m.position.Store(version)
}

// put notes the state of an object, which must not be of a history that no longer is.
func (m *mover) put(o *corev1.ConfigMap, at int) {
	if by, err := strconv.ParseInt(o.Annotations[undone], 10, 64); err == nil && by <= m.known.Load() {
		m.t.Errorf("%q at %d: %s at %s was undone by restore %d of %d", m.label, at, o.Name, o.ResourceVersion, by,
			m.known.Load())
	}
	m.state[o.Name] = m.stateOf(o)
}

// see handles an event. It returns false when the watch is over.
func (m *mover) see(e watch.Event, at int) bool {
	o, ok := e.Object.(*corev1.ConfigMap)
	if !ok {
		err := apierrors.FromObject(e.Object)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			m.position.Store(0) // list again
		}
		return false
	}
	before := m.position.Load()
	now, _ := strconv.ParseUint(o.ResourceVersion, 10, 64)
	if now < before || now == before && e.Type != watch.Bookmark {
		m.t.Errorf("%q at %d: %s %s at %d after %d", m.label, at, e.Type, o.Name, now, before)
	}
	m.position.Store(now)
	_, has := m.state[o.Name]
	switch e.Type {
	case watch.Bookmark:
		return true
	case watch.Deleted:
		delete(m.state, o.Name)
	default:
		m.put(o, at)
	}
	if has != (e.Type != watch.Added) {
		m.t.Errorf("%q at %d: %s %s, which was there: %v", m.label, at, e.Type, o.Name, has)
	}
	return true
}

// TestMostRecentOfARestoredServer: a replica that is ahead of the server, since that was restored, forwards who asks
// for the most recent state.
func TestMostRecentOfARestoredServer(t *testing.T) {
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{})
	f.Create(configMap("x", "a"))
	f.synced(t)
	r := f.replicas[0]
	r.resources[0].Collection.Add(nil, "1000000") // as if it had seen a later history
	before := r.counts.forwarded.Load()
	list, err := f.maps(0).List(t.Context(), metav1.ListOptions{})
	if err != nil || list.ResourceVersion != f.ResourceVersion() || r.counts.forwarded.Load() != before+1 {
		t.Errorf("a list at %s of the server at %s, %v", list.ResourceVersion, f.ResourceVersion(), err)
	}
	eventually(t, func() bool {
		return replica.Format(r.resources[0].Collection.Stats().Version) == f.ResourceVersion()
	})
}

// nextError waits for the end of a watch, and returns the error in its ERROR event, if any.
func nextError(t *testing.T, w watch.Interface) error {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case e, open := <-w.ResultChan():
			switch {
			case !open:
				return nil
			case e.Type == watch.Error:
				return apierrors.FromObject(e.Object)
			}
		case <-timeout:
			return errors.New("the watch goes on")
		}
	}
}

// TestHistoryIsLost ends watches that cannot be resumed with 410: from before the journal, across a
// list of the replica, and when the server's history was rewritten.
func TestHistoryIsLost(t *testing.T) {
	watchFrom := func(t *testing.T, f *fixture, version string) watch.Interface {
		t.Helper()
		w, err := f.maps(0).Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		return w
	}
	expired := func(t *testing.T, w watch.Interface, text string) {
		t.Helper()
		if err := nextError(t, w); !apierrors.IsResourceExpired(err) || text != "" && err.Error() != text {
			t.Errorf("%v, want %s", err, text)
		}
	}
	t.Run("before the journal", func(t *testing.T) {
		f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{JournalBytes: 1})
		first := f.Create(configMap("x", "a"))
		f.Update(configMap("x", "b"))
		last := f.Update(configMap("x", "c"))
		f.synced(t)
		expired(t, watchFrom(t, f, first), fmt.Sprintf("too old resource version: %s (%s)", first, last))
	})
	t.Run("across a list", func(t *testing.T) {
		f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{})
		version := f.Create(configMap("x", "a"))
		f.synced(t)
		w := watchFrom(t, f, version)
		f.Stop() // the replica misses what follows
		f.Create(configMap("y", "a"))
		f.Delete(configMap("y", "a"))
		f.Compact()
		f.Compact()
		f.Start()
		expired(t, w, "")
	})
	t.Run("rewritten", func(t *testing.T) {
		f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{BookmarkInterval: time.Second})
		f.Create(configMap("x", "a"))
		backup := f.Snapshot()
		for range 20 {
			f.Update(configMap("x", "b"))
		}
		f.synced(t)
		version := f.ResourceVersion()
		w := watchFrom(t, f, version)
		f.Stop()
		f.Restore(backup)
		f.Start()
		expired(t, w, "")
		expired(t, watchFrom(t, f, version), "")
		list, err := f.maps(0).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil || list.ResourceVersion >= version || list.Items[0].Labels["half"] != "a" {
			t.Errorf("after the restore: %v, %v", list, err)
		}
	})
}

// TestShutdownEndsWatches ends watches with a bookmark, from which a client goes on at another replica.
func TestShutdownEndsWatches(t *testing.T) {
	f := newFixture(t, 2, tidingstest.ServerOptions{}, Options{})
	f.Create(configMap("x", "a"))
	f.synced(t)
	w, err := f.maps(0).Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0", AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Added {
		t.Fatal(e)
	}
	e := <-w.ResultChan()
	if o, ok := e.Object.(*corev1.ConfigMap); !ok || o.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
		t.Fatalf("%v, want the end of the initial events", e)
	}
	f.replicas[0].Shutdown()
	e = <-w.ResultChan()
	bookmark, ok := e.Object.(*corev1.ConfigMap)
	if !ok || e.Type != watch.Bookmark {
		t.Fatalf("the last event is %v", e)
	}
	if _, open := <-w.ResultChan(); open {
		t.Fatal("the watch goes on")
	}
	lists := f.Count(tidingstest.List)
	next := f.Update(configMap("x", "b"))
	w, err = f.maps(1).Watch(t.Context(), metav1.ListOptions{ResourceVersion: bookmark.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.ResultChan(); e.Type != watch.Modified || e.Object.(*corev1.ConfigMap).ResourceVersion != next {
		t.Errorf("the next event is %v", e)
	}
	if n := f.Count(tidingstest.List) - lists; n != 0 {
		t.Errorf("%d lists", n)
	}
}
