package promises_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// TestRandomBudgets runs programs with the same directory one after the other, each with another
// budget. Their first lists fail midway, their namespaces, handlers and indexes come and go, their
// functions panic, and some objects cannot be folded. In the end, each has what the server has.
func TestRandomBudgets(t *testing.T) {
	testseed.Each(t, 1, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			b := &budgets{
				t: t, foldedServer: &foldedServer{Rand: rand.New(rand.NewPCG(seed, 0)), server: tidingstest.NewServer(t, tidingstest.ServerOptions{})}, dir: t.TempDir(),
				transforms: seed%3 == 0,
			}
			for i := range 900 {
				b.server.Create(b.pod(object.Key{Namespace: fmt.Sprint("n", i%3), Name: fmt.Sprint("q", i)}))
			}
			for range 3 {
				b.run()
			}
		})
	})
}

// budgets is a server whose objects programs with different budgets cache.
type budgets struct {
	t *testing.T
	*foldedServer
	dir        string
	transforms bool
	index      *tidings.Index[pod]
	kept       []keptSnapshot
	replays    []*replayed
}

// keptSnapshot is a snapshot, and what it showed.
type keptSnapshot struct {
	snap     tidings.Snapshot[pod]
	contents map[object.Key]string // digests
	byNode   map[string]int
}

// ends reports whether a name ends with this digit.
func ends(name, digit string) bool { return strings.HasSuffix(name, digit) }

// nodeOf is an index function that panics for some pods.
func nodeOf(p pod) []string {
	if ends(p.Name, "7") {
		panic("no node")
	}
	return []string{p.Spec.NodeName, "any"}
}

// transform makes some objects unfoldable, and fails for others.
func transform(p pod) (pod, error) {
	switch p.Name[len(p.Name)-1] {
	case '1':
		p.Finalizers = []string{}
	case '2':
		return nil, errors.New("no")
	case '3':
		panic("not this one")
	case '4':
		return p, errors.New("not this one either")
	}
	return p, nil
}

var budgetScopes = [][]string{{tidings.All}, {"n0"}, {"n0", "n1"}, {"n1", "n2"}, {"n0", "n1", "n2"}}

// run runs one program.
func (b *budgets) run() {
	t := b.t
	if b.IntN(3) == 0 {
		b.spoil()
	}
	opts := tidings.Options{
		Files:        tidings.Files{Dir: b.dir, Every: time.Minute, TransformVersion: "1"},
		MemoryBudget: []int64{0, 1, 300_000, 800_000, 2_000_000, 20_000_000}[b.IntN(6)], NoWatchList: b.IntN(2) == 0, Seed: b.Uint64(),
		PageSize: int64(b.IntN(3) * 200),
	}
	f, err := tidings.NewFactory(b.server.Config(), opts)
	if err != nil {
		t.Fatal(err)
	}
	scope := budgetScopes[b.IntN(len(budgetScopes))]
	inf, err := tidings.Informer[pod](f, tidings.Scope{Namespaces: scope})
	if err != nil {
		t.Fatal(err)
	}
	if b.transforms {
		if err := inf.SetTransform(transform); err != nil {
			t.Fatal(err)
		}
	}
	b.index = inf.AddIndex("node", nodeOf)
	b.kept, b.replays = nil, nil
	for range b.IntN(3) {
		b.handle(inf)
	}
	keys := readKeys(t, inf, tidings.HandlerOptions{Name: "keys"})
	mustAdd(t, inf, tidings.DeltaFunc[pod](func(d tidings.Delta[pod]) {
		if ends(d.Key.Name, "8") {
			panic("a handler")
		}
	}), tidings.HandlerOptions{Name: "panics"})
	b.server.InjectRandom(tidingstest.Any, tidingstest.Chaos{Seed: b.Uint64(), Share: 0.3})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		b.act(inf)
		b.checkStatus(inf)
	}
	b.settle(inf)
	want := b.want(inf)
	if got := keys.versions(); !maps.Equal(got, want) {
		t.Errorf("the handler of keys: %s", differ(want, got))
	}
	b.checkAll(inf, want)
	if err := f.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if st := inf.Status().Memory; st.Used != 0 || st.Bytes != 0 {
		t.Errorf("after the end: %+v", st)
	}
	for i, r := range b.replays {
		r.mustHold(want, fmt.Sprint("handler ", i))
	}
}

// mustHold checks the versions of the objects that the handler knows.
func (r *replayed) mustHold(want map[object.Key]string, who string) {
	got := map[object.Key]string{}
	for k, p := range r.state {
		got[k] = p.ResourceVersion
	}
	if !maps.Equal(got, want) {
		r.t.Errorf("%s: %s", who, differ(want, got))
	}
}

// settle ends all faults, and waits until the informer and its handlers have caught up.
func (b *budgets) settle(inf *tidings.SharedInformer[pod]) {
	b.server.ClearFaults()
	b.server.Heal()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Hour)
	defer cancel()
	if err := inf.WaitForSync(ctx); err != nil {
		b.t.Fatal(err)
	}
	time.Sleep(20 * time.Minute)
	synctest.Wait()
}

// want returns what the server has in the informer's namespaces.
func (b *budgets) want(inf *tidings.SharedInformer[pod]) map[object.Key]string {
	want, namespaces := b.server.Versions(podResource), inf.Namespaces()
	maps.DeleteFunc(want, func(k object.Key, _ string) bool {
		return !slices.Contains(namespaces, tidings.All) && !slices.Contains(namespaces, k.Namespace)
	})
	return want
}

// checkAll compares the informer with what it should have, and the snapshots kept with what they had.
func (b *budgets) checkAll(inf *tidings.SharedInformer[pod], want map[object.Key]string) {
	if got := versionsOf(inf); !maps.Equal(got, want) {
		b.t.Errorf("in %v: %s", inf.Namespaces(), differ(want, got))
	}
	if !b.transforms {
		b.compareIn(inf, want)
	}
	b.checkStatus(inf)
	for _, k := range b.kept {
		b.checkKept(k)
	}
}

// compareIn compares the contents of these objects with the server's.
func (b *budgets) compareIn(inf *tidings.SharedInformer[pod], want map[object.Key]string) {
	for _, o := range b.server.Objects(podResource) {
		p := o.(pod)
		if want[object.KeyOf(p)] == "" {
			continue
		}
		p = p.DeepCopy()
		p.TypeMeta.Kind, p.TypeMeta.APIVersion = "", ""
		if got, ok := inf.Get(object.KeyOf(p)); !ok || got.String() != p.String() {
			b.t.Errorf("%s is %+v, on the server it is %+v", object.KeyOf(p), got, p)
		}
	}
}

// handle adds a handler, at most five.
func (b *budgets) handle(inf *tidings.SharedInformer[pod]) {
	if len(b.replays) > 4 {
		return
	}
	r := &replayed{t: b.t, state: map[object.Key]pod{}, delay: time.Duration(b.IntN(3)) * time.Millisecond}
	b.replays = append(b.replays, r)
	mustAdd(b.t, inf, r, tidings.HandlerOptions{Policy: tidings.Policy(b.IntN(3)), Buffer: 10, Resync: time.Duration(b.IntN(2)) * time.Minute})
}

// act does something at random.
func (b *budgets) act(inf *tidings.SharedInformer[pod]) {
	switch b.IntN(14) {
	case 0, 1, 2:
		for range b.IntN(80) {
			b.write()
		}
	case 3:
		b.keep(inf)
	case 4:
		b.handle(inf)
	case 5:
		if err := inf.SetNamespaces(b.t.Context(), budgetScopes[b.IntN(len(budgetScopes))]...); err != nil {
			b.t.Error(err)
		}
	case 6:
		b.server.Compact()
	case 7:
		b.server.Partition()
	case 8, 9:
		b.server.Heal()
	case 10:
		for range b.IntN(50) {
			inf.Get(b.key())
		}
	case 11:
		late := inf.AddIndex("late", func(p pod) []string { return []string{p.Name[:1]} })
		snap := inf.Snapshot()
		n := 0
		for range snap.All() {
			n++
		}
		if q, p := snap.Count(late, "q"), snap.Count(late, "p"); q+p != n || n != snap.Len() {
			b.t.Errorf("%d and %d of %d", q, p, n)
		}
	default:
		time.Sleep(time.Duration(b.IntN(4000)) * time.Millisecond)
	}
	if b.IntN(3) == 0 {
		time.Sleep(time.Duration(b.IntN(50)) * time.Millisecond)
	}
}

// keep keeps a snapshot.
func (b *budgets) keep(inf *tidings.SharedInformer[pod]) {
	k := keptSnapshot{snap: inf.Snapshot(), contents: map[object.Key]string{}, byNode: map[string]int{}}
	for key, p := range k.snap.All() {
		k.contents[key] = digest(p)
		if !ends(p.Name, "7") {
			k.byNode[p.Spec.NodeName]++
		}
	}
	if b.IntN(2) == 0 {
		b.checkKept(k)
	}
	if len(b.kept) < 6 {
		b.kept = append(b.kept, k)
	}
}

// digest returns the version of a pod, and a hash of its contents.
func digest(p pod) string {
	h := fnv.New64a()
	encoded, err := p.Marshal()
	_, _ = h.Write(encoded)
	return fmt.Sprintf("%s %x %v", p.ResourceVersion, h.Sum64(), err)
}

func (b *budgets) checkKept(k keptSnapshot) {
	for node, n := range k.byNode {
		if got := k.snap.Count(b.index, node); got != n {
			b.t.Errorf("%d pods on %s, want %d", got, node, n)
		}
	}
	contents := map[object.Key]string{}
	for key, p := range k.snap.All() {
		contents[key] = digest(p)
	}
	if !maps.Equal(contents, k.contents) {
		b.t.Errorf("a snapshot has changed: %s", differ(k.contents, contents))
	}
}

// checkStatus fails the test if a size or number is negative.
func (b *budgets) checkStatus(inf *tidings.SharedInformer[pod]) {
	st := inf.Status().Memory
	if st.Open < 0 || st.Folded < 0 || st.Unfoldable < 0 || st.OpenBytes < 0 || st.FoldedBytes < 0 || st.EncodedBytes < 0 || st.Bytes < 0 || st.Used < 0 {
		b.t.Errorf("%+v", st)
	}
}

// spoil cuts off files, or replaces them by parts of others.
func (b *budgets) spoil() {
	paths, _ := filepath.Glob(filepath.Join(b.dir, "*"))
	for _, path := range paths {
		if b.IntN(2) == 0 {
			other, err := os.ReadFile(paths[b.IntN(len(paths))])
			if err != nil {
				b.t.Fatal(err)
			}
			rewrite(b.t, path, func([]byte) []byte { return other[:b.IntN(len(other)+1)] })
		}
	}
}
