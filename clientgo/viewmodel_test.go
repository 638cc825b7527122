package clientgo_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/clientgo"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/tidingstest"
)

var schedulesFlag = flag.Int("schedules", 100, "how many schedules of TestViewsAreWatchesOfTheirOwn to run")

// TestViewsAreWatchesOfTheirOwn writes at random while the server misbehaves, and holds views against watches of their
// own and against a model: a view is the list and the changes that its own watch would have brought. "make simulate"
// runs more schedules.
func TestViewsAreWatchesOfTheirOwn(t *testing.T) {
	seed := testseed.Seed(t)
	events := map[string]int{}
	for i := range *schedulesFlag {
		synctest.Test(t, func(t *testing.T) {
			s := newViewSchedule(t, rand.New(rand.NewPCG(seed, uint64(i))))
			s.run()
			for _, p := range s.pairs {
				heard, _ := p.view.heard()
				for _, e := range heard {
					events[e.what]++
				}
			}
		})
		if t.Failed() {
			t.Fatalf("schedule %d of seed %d", i, seed)
		}
	}
	t.Logf("%d schedules: %v", *schedulesFlag, events)
	if len(events) != 3 {
		t.Error("the views' handlers did not hear of everything")
	}
}

// What the label "as" makes of a pod in the view of the model.
const (
	leftOut    = "left-out"
	nilPointer = "nil-pointer"
	failing    = "failing"
	panics     = "panics"
	itself     = "itself"
	converted  = "converted"
)

var outcomes = []string{leftOut, nilPointer, failing, panics, itself, converted, converted}

func outcomeOf(obj any) string { return obj.(metav1.Object).GetLabels()["as"] }

// capricious is a conversion.
func capricious(obj tidings.Object) (tidings.Object, error) {
	switch outcomeOf(obj) {
	case leftOut:
		return nil, nil
	case nilPointer:
		return (*metav1.PartialObjectMetadata)(nil), nil
	case failing:
		return nil, errors.New("it cannot be made")
	case panics:
		panic("a stray nil")
	case itself:
		return obj, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: *obj.(*corev1.Pod).ObjectMeta.DeepCopy()}, nil
}

// leaving is a conversion, or a transform of a watch of its own.
func leaving(obj any) (any, error) {
	if outcomeOf(obj) == leftOut {
		return nil, nil
	}
	return obj, nil
}

// notice is what a handler was told.
type notice struct{ what, key, version, outcome string }

// listener records what a handler is told, and checks that it makes sense.
type listener struct {
	t    *testing.T
	name string

	mu     sync.Mutex // a handler's goroutine notes while the test looks on
	events []notice
	held   map[string]string // versions by key
}

// heard returns what the handler was notified of, and the versions by key that it knows.
func (l *listener) heard() ([]notice, map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.events), maps.Clone(l.held)
}

func newListener(t *testing.T, name string) *listener {
	return &listener{t: t, name: name, held: map[string]string{}}
}

func (l *listener) note(what string, old, obj any) {
	m := obj.(metav1.Object)
	key := m.GetNamespace() + "/" + m.GetName()
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.held[key]
	if known == (what == "add") {
		l.t.Errorf("%s: %s of %s, which is known: %t", l.name, what, key, known)
	}
	if old != nil && old.(metav1.Object).GetResourceVersion() != before {
		l.t.Errorf("%s: %s was at %s, and is said to have been at %s", l.name, key, before,
			old.(metav1.Object).GetResourceVersion())
	}
	l.events = append(l.events, notice{what, key, m.GetResourceVersion(), outcomeOf(obj)})
	l.held[key] = m.GetResourceVersion()
	if what == "delete" {
		delete(l.held, key)
	}
}

func (l *listener) OnAdd(obj any, _ bool) { l.note("add", nil, obj) }
func (l *listener) OnUpdate(old, obj any) { l.note("update", old, obj) }
func (l *listener) OnDelete(obj any) {
	l.note("delete", nil, lastState(obj))
}

// lastState returns the object, or that of a tombstone.
func lastState(obj any) any {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return unknown.Obj
	}
	return obj
}

// expected returns what a handler of the capricious view hears if one of the watch has heard the events. It does not say
// in which state an object was deleted.
func expected(events []notice) (want []notice) {
	known := map[string]bool{}
	for _, e := range events {
		was := known[e.key]
		switch {
		case e.what == "delete", e.outcome == leftOut, e.outcome == nilPointer:
			if was {
				want = append(want, notice{what: "delete", key: e.key})
			}
			known[e.key] = false
		case e.outcome == failing, e.outcome == panics:
		case was:
			want = append(want, notice{"update", e.key, e.version, e.outcome})
		default:
			want = append(want, notice{"add", e.key, e.version, e.outcome})
			known[e.key] = true
		}
	}
	return want
}

// pair is a handler of the watch and one of the view, added at the same moment.
type pair struct{ base, view *listener }

// viewSchedule is one run of TestViewsAreWatchesOfTheirOwn.
type viewSchedule struct {
	formsWorld
	random     *rand.Rand
	base, view cache.SharedIndexInformer // of the model
	pairs      []pair
	some       *listener                               // has a filter
	shared     map[string][2]cache.SharedIndexInformer // over one watch, and over one of its own, by form
	listeners  map[string][2]*listener
}

func newViewSchedule(t *testing.T, random *rand.Rand) *viewSchedule {
	s := &viewSchedule{
		formsWorld: formsWorld{t, tidingstest.NewServer(t, tidingstest.ServerOptions{NoWatchList: random.IntN(2) == 0})},
		random:     random, shared: map[string][2]cache.SharedIndexInformer{}, listeners: map[string][2]*listener{},
	}
	for range 5 {
		s.write()
	}
	factories := map[string][2]anyFactory{}
	held := makeFactory("typed", s.Config())
	s.base = informerOf(held, pods)
	s.view = s.newView(capricious)
	for _, form := range []string{"typed", "dynamic", "metadata"} {
		over := held
		if form != "typed" {
			over = makeFactory(form, s.Config(), clientgo.WithOneWatch(held.(interface{ Shutdown() })))
		}
		factories[form] = [2]anyFactory{over, makeFactory(form, s.Config())}
		s.compare(form, informerOf(over, pods), informerOf(factories[form][1], pods))
	}
	own := makeFactory("typed", s.Config())
	must(t, informerOf(own, pods).SetTransform(leaving))
	view := s.newView(func(obj tidings.Object) (tidings.Object, error) {
		out, err := leaving(obj)
		shown, _ := out.(tidings.Object)
		return shown, err
	})
	s.compare("left out", view, informerOf(own, pods))
	s.listen()
	s.some = newListener(t, "with a filter")
	mustAdd(t, s.view, cache.FilteringResourceEventHandler{Handler: s.some,
		FilterFunc: func(obj any) bool { return outcomeOf(lastState(obj)) == converted }})
	all := []anyFactory{own}
	for _, form := range []string{"typed", "dynamic", "metadata"} {
		all = append(all, factories[form][0], factories[form][1])
	}
	run(t, s.view)
	run(t, view)
	s.formsWorld.run(all...)
	return s
}

func (s *viewSchedule) newView(convert func(tidings.Object) (tidings.Object, error)) cache.SharedIndexInformer {
	view, err := clientgo.NewSharedIndexInformerView(s.base, convert, cache.SharedIndexInformerOptions{
		ObjectDescription: "a view", Indexers: cache.Indexers{
			cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
			"as":                 func(obj any) ([]string, error) { return []string{outcomeOf(obj)}, nil },
		},
	})
	must(s.T, err)
	return view
}

// compare adds an informer over a shared watch and one over its own, which must show the same.
func (s *viewSchedule) compare(what string, view, own cache.SharedIndexInformer) {
	ofView, ofOwn := newListener(s.T, what+", shared"), newListener(s.T, what)
	mustAdd(s.T, view, ofView)
	mustAdd(s.T, own, ofOwn)
	s.shared[what] = [2]cache.SharedIndexInformer{view, own}
	s.listeners[what] = [2]*listener{ofView, ofOwn}
}

// listen adds a pair of handlers.
func (s *viewSchedule) listen() {
	p := pair{newListener(s.T, "base"), newListener(s.T, "view")}
	mustAdd(s.T, s.base, p.base)
	mustAdd(s.T, s.view, p.view)
	s.pairs = append(s.pairs, p)
}

func (s *viewSchedule) run() {
	s.disturb()
	for range 40 {
		switch s.random.IntN(8) {
		case 0, 1, 2, 3:
			s.write()
		case 4:
			time.Sleep(time.Duration(s.random.IntN(3000)) * time.Millisecond)
		case 5:
			s.BreakConnections()
		case 6:
			s.Compact()
			s.BreakConnections()
		default:
			synctest.Wait()
			s.checkModel()
			if len(s.pairs) < 3 {
				s.listen()
			}
		}
	}
	s.ClearFaults()
	time.Sleep(10 * time.Minute)
	synctest.Wait()
	s.checkModel()
	s.checkOwn()
}

func (s *viewSchedule) disturb() {
	s.InjectRandom(tidingstest.Any, tidingstest.Chaos{Seed: s.random.Uint64(), Share: 0.2})
}

// write creates, changes or deletes a pod.
func (s *viewSchedule) write() {
	p := labeled(fmt.Sprintf("%c/p%d", 'a'+s.random.IntN(2), s.random.IntN(4)), fmt.Sprint(s.random.IntN(1000)))
	p.Labels["as"] = outcomes[s.random.IntN(len(outcomes))]
	exists := slices.ContainsFunc(s.Objects(pods), func(o tidings.Object) bool {
		return o.GetNamespace() == p.Namespace && o.GetName() == p.Name
	})
	switch {
	case !exists:
		s.Create(p)
	case s.random.IntN(4) == 0:
		s.Delete(p)
	default:
		s.Update(p)
	}
}

// checkModel compares the capricious view with what is made of the objects that are held.
func (s *viewSchedule) checkModel() {
	shown, namespaces := map[string]string{}, map[string]bool{}
	for _, item := range s.base.GetStore().List() {
		pod := item.(*corev1.Pod)
		key := pod.Namespace + "/" + pod.Name
		outcome := outcomeOf(pod)
		got, exists, err := s.view.GetStore().GetByKey(key)
		broken := outcome == failing || outcome == panics
		present := outcome == itself || outcome == converted
		if exists != present || (err != nil) != broken || (got != nil) != present {
			s.Errorf("%s, %s: got %v, %t, %v", key, outcome, got, exists, err)
		}
		if present {
			shown[key], namespaces[pod.Namespace] = pod.ResourceVersion, true
		}
	}
	store := s.view.GetIndexer()
	if got := versionsOf(store.List()); !maps.Equal(got, shown) {
		s.Errorf("the list has %v, want %v", got, shown)
	}
	keys := slices.Sorted(maps.Keys(shown))
	if got := store.ListKeys(); !slices.Equal(got, keys) {
		s.Errorf("the keys are %v, want %v", got, keys)
	}
	if got := store.ListIndexFuncValues(cache.NamespaceIndex); !slices.Equal(got, slices.Sorted(maps.Keys(namespaces))) {
		s.Errorf("the namespaces are %v, want %v", got, namespaces)
	}
	byIndex := 0
	for _, index := range []string{"as", cache.NamespaceIndex} {
		for _, value := range store.ListIndexFuncValues(index) {
			keys, err := store.IndexKeys(index, value)
			list, err2 := store.ByIndex(index, value)
			if byIndex += len(keys); err != nil || err2 != nil || len(keys) != len(list) {
				s.Errorf("index %s at %s: %v, %d objects, %v, %v", index, value, keys, len(list), err, err2)
			}
		}
	}
	if byIndex != 2*len(shown) {
		s.Errorf("the indexes have %d objects, want twice %d", byIndex, len(shown))
	}
	for _, p := range s.pairs {
		got, _ := p.view.heard()
		brought, _ := p.base.heard()
		for i := range got {
			if got[i].what == "delete" {
				got[i].version, got[i].outcome = "", ""
			}
		}
		if want := expected(brought); !slices.Equal(got, want) {
			s.Errorf("the watch brought %v\nthe handler heard %v\nwant %v", brought, got, want)
		}
	}
}

// checkOwn compares what shares a watch with what has its own, once both are up to date.
func (s *viewSchedule) checkOwn() {
	for what, both := range s.shared {
		view, own := both[0].GetStore().List(), both[1].GetStore().List()
		// Objects of a watch of metadata have the kind of metadata, those of a list have none.
		if diff := cmp.Diff(own, view, cmpopts.IgnoreTypes(metav1.TypeMeta{})); diff != "" {
			s.Errorf("%s: a view differs from its own watch: %s", what, diff)
		}
		_, ofView := s.listeners[what][0].heard()
		_, ofOwn := s.listeners[what][1].heard()
		if want := versionsOf(own); !maps.Equal(ofView, want) || !maps.Equal(ofOwn, want) {
			s.Errorf("%s: the handlers know %v and %v, want %v", what, ofView, ofOwn, want)
		}
	}
	want := map[string]string{}
	_, known := s.pairs[0].view.heard()
	for key, version := range known {
		if obj, _, _ := s.base.GetStore().GetByKey(key); outcomeOf(obj) == converted {
			want[key] = version
		}
	}
	_, some := s.some.heard()
	for key, version := range want {
		if some[key] != version {
			s.Errorf("the handler with a filter knows %v, want %v", some, want)
		}
	}
}

// versionsOf returns the versions of a list's objects by key.
func versionsOf(list []any) map[string]string {
	versions := map[string]string{}
	for _, item := range list {
		m := item.(metav1.Object)
		versions[m.GetNamespace()+"/"+m.GetName()] = m.GetResourceVersion()
	}
	return versions
}
