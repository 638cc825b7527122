package promises_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// TestSimilarPods runs programs one after the other with the same directory. The server's pods are
// similar, so that most are folded as patches, and a transform may modify them. Whatever the
// budget, readers, indexes and handlers, including late ones, see exactly what the server has, or
// had at that version.
func TestSimilarPods(t *testing.T) {
	testseed.Each(t, 4, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			w := &similarPods{t: t, Rand: rand.New(rand.NewPCG(seed, 0)), server: tidingstest.NewServer(t, tidingstest.ServerOptions{})}
			w.transform = w.IntN(2) == 0
			for range 150 {
				w.write()
			}
			opts := tidings.Options{Files: tidings.Files{Dir: t.TempDir(), TransformVersion: "mark"}, Seed: seed | 1}
			for range 4 {
				opts.MemoryBudget = []int64{1, 100_000, 1 << 20, 1 << 30}[w.IntN(4)]
				opts.NoWatchList = w.IntN(2) == 0
				w.run(opts, tidings.Scope{Namespaces: [][]string{nil, {"a"}, {"a", "b"}}[w.IntN(3)]})
			}
			if w.looked && w.told == 0 {
				t.Error("a handler was told nothing")
			}
		})
	})
}

// TestChangesOfFoldedObjectsFold: while memory is scarce, folded objects stay folded when they
// change, and need not be folded again later.
func TestChangesOfFoldedObjectsFold(t *testing.T) {
	if memory.Eager {
		t.Skip("the memory is never scarce when everything is folded at once")
	}
	synctest.Test(t, func(t *testing.T) {
		w := &similarPods{t: t, Rand: testseed.Rand(t), server: tidingstest.NewServer(t, tidingstest.ServerOptions{})}
		var pods []pod
		for i := range 600 {
			pods = append(pods, w.pod(newPod("a", fmt.Sprintf("owner%d-%03d", i%3, i))))
			w.server.Create(pods[i])
		}
		const budget = 280_000
		f, err := tidings.NewFactory(w.server.Config(), tidings.Options{MemoryBudget: budget, NoWatchList: true})
		if err != nil {
			t.Fatal(err)
		}
		inf, err := tidings.Informer[pod](f, tidings.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Changes fold at once from 75% of the budget on, and when it is full they fold anyway: in between it shows.
		before := settledMemory(inf)
		for i := 0; before.Used > budget*80/100; i += 10 {
			for j := range 5 {
				w.server.Delete(pods[i+2*j])
			}
			before = settledMemory(inf)
		}
		if before.Used < budget*76/100 {
			t.Fatalf("memory is not scarce: %+v", before)
		}
		for i := range 20 { // open, they would fit into what is left
			pods[30*i+5].Status.PodIP = fmt.Sprint("10.0.0.", i)
			w.server.Update(pods[30*i+5])
		}
		synctest.Wait()
		if after := inf.Status().Memory; after.Open > 5 { // a few may resemble no other
			t.Errorf("%+v, before the changes %+v", after, before)
		}
		if err := f.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// settledMemory returns what is used once the informer has handled all and nobody holds an object.
func settledMemory(inf *tidings.SharedInformer[pod]) tidings.MemoryStatus {
	synctest.Wait()
	for range 3 {
		collect() // or the listed objects are still open
	}
	return inf.Status().Memory
}

// collect collects garbage, and waits until what is to be done after a collection is done. Objects
// that were looked at meanwhile are kept until the next.
func collect() {
	var done atomic.Bool
	runtime.AddCleanup(new([32]byte), func(done *atomic.Bool) { done.Store(true) }, &done)
	for runtime.GC(); !done.Load(); {
		runtime.Gosched()
	}
}

type similarPods struct {
	t *testing.T
	*rand.Rand
	server    *tidingstest.Server
	writes    int
	transform bool
	keysOnly  bool // no handler of this run looks at objects
	looked    bool // in another run one did

	mu      sync.Mutex // guards what follows
	history map[string]pod
	told    int // objects that a handler was told of, of which the history is known
}

// write creates, updates or deletes a pod, and records the server's state before it is visible.
func (w *similarPods) write() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	p := w.pod(newPod([]string{"a", "b", "c"}[w.IntN(3)], fmt.Sprintf("owner%d-%02d", w.IntN(3), w.IntN(20))))
	switch _, exists := w.server.Versions(podResource)[object.KeyOf(p)]; {
	case !exists:
		w.server.Create(p)
	case w.IntN(4) == 0:
		w.server.Delete(p)
	default:
		w.server.Update(p)
	}
	w.record()
}

// record adds the server's state to the history. The caller holds mu.
func (w *similarPods) record() {
	if w.history == nil {
		w.history = map[string]pod{}
	}
	for _, o := range w.server.Objects(podResource) {
		if _, known := w.history[versionOf(o)]; !known {
			p := w.decoded(o.(pod))
			w.history[versionOf(p)] = p
		}
	}
}

// versionOf identifies one version of one object.
func versionOf(o object.Object) string { return string(o.GetUID()) + "@" + o.GetResourceVersion() }

// decoded returns an object of the server as an informer should hold it.
func (w *similarPods) decoded(o pod) pod {
	p := o.DeepCopy()
	if p.TypeMeta = (metav1.TypeMeta{}); w.transform {
		p, _ = mark(p)
	}
	return p
}

// hear is a handler that compares its notifications, including old states, with the history. It retains nothing.
func (w *similarPods) hear(d tidings.Delta[pod]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range []pod{d.Old, d.Object} {
		if p == nil || p == d.Object && d.Type == object.Deleted {
			continue
		}
		want := w.history[versionOf(p)]
		if w.told++; !reflect.DeepEqual(p, want) {
			w.t.Errorf("%v: %v is not what the server had: %s", d.Type, d.Key, cmp.Diff(want, p))
		}
	}
}

// pod fills in what a pod has in common with others of its owner, and changes some of it.
func (w *similarPods) pod(p pod) pod {
	owner := p.Name[:len("owner0")]
	p.Labels = map[string]string{"owner": owner}
	fields := &metav1.FieldsV1{}
	fields.SetRawString(fmt.Sprintf(`{"f:%s":{}}`, strings.Repeat(owner, 30)))
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: fields}}
	p.Spec.NodeName = fmt.Sprint("node-", w.IntN(5))
	for i := range 1 + len(owner)%3 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: fmt.Sprint("main-", i), Image: "registry.example/" + owner, Args: []string{strings.Repeat(owner, 60), "-v"},
			Env: []corev1.EnvVar{{Name: "OWNER", Value: owner}}, SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(7))},
		})
	}
	p.Spec.Hostname = fmt.Sprintf("%08x", uint32(w.writes)*2654435761)
	p.Status.StartTime = &metav1.Time{Time: time.Unix(int64(1_700_000_000+w.writes/20), 0)}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(int64(1_700_000_000*w.IntN(2)+w.writes), 0)}}
	switch w.IntN(12) {
	case 0:
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "more"})
	case 1:
		p.Labels["write"] = fmt.Sprint(w.writes)
	case 2:
		p.Spec.Containers[0].SecurityContext = nil
	case 3:
		p.Spec.Containers[0].Args = p.Spec.Containers[0].Args[:1]
	case 4:
		fields.SetRawString(fields.GetRawString() + " ")
	case 5:
		p.Spec.Containers[0].Args[0] = p.Spec.Containers[0].Args[0][:w.IntN(300)]
	}
	return p
}

// mark is a transform that writes to everything a pod refers to.
func mark(p pod) (pod, error) {
	p.Labels["marked"] = "yes"
	for i := range p.ManagedFields {
		p.ManagedFields[i].FieldsV1.GetRawBytes()[0] = '['
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.Image += "!"
		for j := range c.Args {
			c.Args[j] += "!"
		}
		if c.SecurityContext != nil {
			*c.SecurityContext.RunAsUser++
		}
	}
	return p, nil
}

// run runs a program while the cluster changes.
func (w *similarPods) run(opts tidings.Options, scope tidings.Scope) {
	f, err := tidings.NewFactory(w.server.Config(), opts)
	if err != nil {
		w.t.Fatal(err)
	}
	inf, err := tidings.Informer[pod](f, scope)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.transform {
		if err := inf.SetTransform(mark); err != nil {
			w.t.Fatal(err)
		}
	}
	byOwner := func(p pod) []string { return []string{p.Labels["owner"]} }
	index := inf.AddIndex("owner", byOwner)
	w.keysOnly = w.IntN(3) == 0
	w.looked = w.looked || !w.keysOnly
	if w.keysOnly {
		mustAdd(w.t, inf, tidings.KeyHandler[pod](func(tidings.Key) {}), tidings.HandlerOptions{})
	} else {
		mustAdd(w.t, inf, tidings.DeltaFunc[pod](w.hear), tidings.HandlerOptions{})
	}
	if err := f.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	if err := inf.WaitForSync(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.compare(inf, scope, index)
	for range 4 {
		w.round(inf)
		late := w.lateHandler(inf)
		lateIndex := inf.AddIndex("late", byOwner)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		w.compare(inf, scope, lateIndex)
		if got, want := late(), versionsOf(inf); !maps.Equal(got, want) {
			w.t.Errorf("a handler that came late was told otherwise: %s", differ(want, got))
		}
	}
	w.compare(inf, scope, index)
	if err := f.Shutdown(w.t.Context()); err != nil {
		w.t.Error(err)
	}
}

// round writes, sometimes while the server is unreachable and then forgets its history, and reads.
func (w *similarPods) round(inf *tidings.SharedInformer[pod]) {
	away := w.IntN(3) == 0
	if away {
		w.server.Partition()
	}
	for range w.IntN(60) {
		w.write()
		inf.Get(object.Key{Namespace: "a", Name: fmt.Sprintf("owner%d-%02d", w.IntN(3), w.IntN(20))})
	}
	if away {
		w.server.Compact()
		w.server.Heal()
	}
	if w.IntN(2) == 0 {
		runtime.GC() // or objects are still open
	}
}

// lateHandler adds a handler, and returns a function for the versions in its notifications.
func (w *similarPods) lateHandler(inf *tidings.SharedInformer[pod]) func() map[object.Key]string {
	if w.keysOnly {
		return readKeys(w.t, inf, tidings.HandlerOptions{}).versions
	}
	var mu sync.Mutex
	versions := map[object.Key]string{}
	mustAdd(w.t, inf, tidings.DeltaFunc[pod](func(d tidings.Delta[pod]) {
		mu.Lock()
		defer mu.Unlock()
		if d.Type == object.Deleted {
			delete(versions, d.Key)
		} else {
			versions[d.Key] = d.Object.ResourceVersion
		}
	}), tidings.HandlerOptions{})
	return func() map[object.Key]string {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(versions)
	}
}

// compare compares all ways to read with the server's state.
func (w *similarPods) compare(inf *tidings.SharedInformer[pod], scope tidings.Scope, index *tidings.Index[pod]) {
	w.t.Helper()
	want := map[object.Key]pod{}
	for _, o := range w.server.Objects(podResource) {
		if p := w.decoded(o.(pod)); inf.Covers(p) {
			want[object.KeyOf(p)] = p
		}
	}
	s := inf.Snapshot()
	seen := map[object.Key]pod{}
	check := func(how string, p pod) {
		if key := object.KeyOf(p); !reflect.DeepEqual(p, want[key]) {
			w.t.Errorf("%s: %v is not that of the server: %s", how, key, cmp.Diff(want[key], p))
		}
	}
	for key := range want {
		if p, ok := s.Get(key); ok {
			check("Get", p)
		}
	}
	for key, p := range s.All() {
		seen[key] = p
		check("All", p)
	}
	if len(seen) != len(want) {
		w.t.Errorf("the store has %d pods, the server %d", len(seen), len(want))
	}
	for owner := range 3 {
		for p := range s.ByIndex(index, fmt.Sprint("owner", owner)) {
			check("ByIndex", p)
			delete(seen, object.KeyOf(p))
		}
	}
	if len(seen) > 0 {
		w.t.Errorf("%d pods are not in the index", len(seen))
	}
}
