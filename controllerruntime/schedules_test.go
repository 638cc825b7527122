package tidingsruntime_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

var schedulesFlag = flag.Int("schedules", 50, "how many schedules of TestOneWatchUnderFaults to run")

// TestOneWatchUnderFaults writes, reads, and adds and removes informers of three forms over one watch, at random while
// the server misbehaves. Every object must be what the server would have sent in that form. "make simulate" runs more
// schedules.
func TestOneWatchUnderFaults(t *testing.T) {
	seed := testseed.Seed(t)
	var total schedule
	for i := range *schedulesFlag {
		synctest.Test(t, func(t *testing.T) {
			s := newSchedule(t, rand.New(rand.NewPCG(seed, uint64(i))))
			s.run()
			total.reads += s.reads
			total.notified.Add(s.notified.Load())
			total.removed += s.removed
		})
		if t.Failed() {
			t.Fatalf("schedule %d of seed %d", i, seed)
		}
	}
	t.Logf("%d schedules: %d objects read, %d notifications, %d informers removed", *schedulesFlag, total.reads,
		total.notified.Load(), total.removed)
	if total.reads == 0 || total.notified.Load() == 0 || total.removed == 0 {
		t.Error("the schedules did not do everything")
	}
}

// schedule is one run of TestOneWatchUnderFaults.
type schedule struct {
	*world
	random *rand.Rand
	cache  cache.Cache
	backup tidingstest.Snapshot

	mu     sync.Mutex
	states map[string][]*corev1.Pod // what the server has stored under a key and version, more than one after a restore

	forms   map[string]*formReplay // the informers that there are
	watches []sharedForms          // in the order in which they were made

	reads, removed int
	notified       atomic.Int64 // handlers of several forms count at the same time
}

// sharedForms is a watch that the model expects.
type sharedForms struct {
	held  string
	users []string
}

func newSchedule(t *testing.T, random *rand.Rand) *schedule {
	s := &schedule{
		world:  newWorld(t, tidingstest.ServerOptions{NoWatchList: random.IntN(2) == 0}, "tidings, one watch"),
		random: random,
		states: map[string][]*corev1.Pod{}, forms: map[string]*formReplay{},
	}
	for range 5 {
		s.write()
	}
	s.backup = s.Snapshot()
	s.cache = s.start(cache.Options{ReaderFailOnMissingInformer: true})
	s.disturb()
	return s
}

func (s *schedule) run() {
	var readers sync.WaitGroup
	for range 40 {
		form := []string{"structured", "unstructured", "metadata"}[s.random.IntN(3)]
		switch s.random.IntN(10) {
		case 0, 1, 2:
			s.write()
		case 3, 4:
			time.Sleep(time.Duration(s.random.IntN(3000)) * time.Millisecond)
		case 5, 6:
			s.ask(form)
		case 7:
			s.remove(form)
		case 8:
			s.incident()
		default:
			if s.forms[form] != nil {
				readers.Go(func() { s.read(form) })
			}
		}
	}
	s.ClearFaults()
	readers.Wait()
	time.Sleep(10 * time.Minute)
	s.settle()
	s.checkEnd()
}

// write creates, changes or deletes a pod.
func (s *schedule) write() {
	p := richPod([]string{"a", "b"}[s.random.IntN(2)], []string{"one", "two"}[s.random.IntN(2)])
	p.Labels = map[string]string{"n": fmt.Sprint(s.random.IntN(1000))}
	p.Status.Message = fmt.Sprint(s.random.IntN(1000))
	s.mu.Lock() // nobody checks what is not in states yet
	defer s.mu.Unlock()
	switch exists := s.holds(p, p.Namespace, p.Name); {
	case !exists:
		s.Create(p)
	case s.random.IntN(4) == 0:
		s.Delete(p)
		return
	default:
		s.Update(p)
	}
	for _, o := range s.Objects(corev1.SchemeGroupVersion.WithResource("pods")) {
		if o.GetNamespace() == p.Namespace && o.GetName() == p.Name {
			s.states[stateKey(o)] = append(s.states[stateKey(o)], o.(*corev1.Pod))
		}
	}
}

func stateKey(o object.Object) string { return object.KeyOf(o).String() + "@" + o.GetResourceVersion() }

func (s *schedule) incident() {
	switch s.random.IntN(4) {
	case 0:
		s.BreakConnections()
	case 1:
		s.Compact()
		s.BreakConnections()
	case 2:
		s.backup = s.Snapshot()
	default:
		s.restore()
	}
}

// restore puts the server back to an earlier state. If it passed its old version before an informer asks it again, it
// would look like one that was not restored. So the informers are current first, and the backup is much older.
func (s *schedule) restore() {
	s.ClearFaults()
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "other"}}
	s.Create(other)
	for range 50 {
		s.Update(other)
	}
	s.Delete(other)
	time.Sleep(5 * time.Minute)
	s.Restore(s.backup)
	time.Sleep(5 * time.Minute)
	s.disturb()
}

func (s *schedule) disturb() {
	s.InjectRandom(tidingstest.Any, tidingstest.Chaos{Seed: s.random.Uint64(), Share: 0.2})
}

// ask makes an informer of the form, if there is none, with a handler.
func (s *schedule) ask(form string) {
	if s.forms[form] != nil {
		return
	}
	obj, _ := forms(podKind)[form]()
	inf, err := s.cache.GetInformer(s.ctx(), obj, cache.BlockUntilSynced(false))
	if err != nil {
		s.Fatal(err)
	}
	replay := &formReplay{schedule: s, form: form, objects: map[client.ObjectKey]client.Object{}}
	s.forms[form] = replay
	s.handle(inf, replay, toolscache.HandlerOptions{})
	for i, w := range s.watches {
		if w.held != "metadata" {
			s.watches[i].users = append(w.users, form)
			return
		}
	}
	s.watches = append(s.watches, sharedForms{form, []string{form}})
}

// remove removes the informer of the form, if there is one. Its handler must not be called any more.
func (s *schedule) remove(form string) {
	if s.forms[form] == nil {
		return
	}
	obj, _ := forms(podKind)[form]()
	if err := s.cache.RemoveInformer(s.ctx(), obj); err != nil {
		s.Error(err)
	}
	s.settle()
	s.forms[form].end()
	delete(s.forms, form)
	for i := range s.watches {
		s.watches[i].users = slices.DeleteFunc(s.watches[i].users, func(user string) bool { return user == form })
	}
	s.watches = slices.DeleteFunc(s.watches, func(w sharedForms) bool { return len(w.users) == 0 })
	s.removed++
}

// read lists and gets in a form. It may fail: because of the faults, or because the informer is removed.
func (s *schedule) read(form string) {
	ctx, cancel := context.WithTimeout(s.ctx(), 20*time.Second)
	defer cancel()
	obj, list := forms(podKind)[form]()
	if err := s.cache.List(ctx, list); err == nil {
		s.checkAll(form, itemsByKey(s.world, list))
	}
	if err := s.cache.Get(ctx, client.ObjectKey{Namespace: "a", Name: "one"}, obj); err == nil {
		s.checkObject(form, obj)
	}
}

func (s *schedule) checkAll(form string, objects map[client.ObjectKey]client.Object) {
	for _, obj := range objects {
		s.checkObject(form, obj)
	}
}

// checkObject compares an object with what the server has stored under its version.
func (s *schedule) checkObject(form string, got client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	for _, state := range s.states[stateKey(got)] {
		if sameInForm(s.T, form, got, state) {
			return
		}
	}
	s.Errorf("%s: got %s\nthe server had %v", form, text(got), s.states[stateKey(got)])
}

// sameInForm reports whether got is what the server sends of a pod in a form.
func sameInForm(t *testing.T, form string, got client.Object, state *corev1.Pod) bool {
	switch form {
	case "unstructured":
		return apiequality.Semantic.DeepEqualWithNilDifferentFromEmpty(got, sentUnstructured(t, state, podKind))
	case "metadata":
		return apiequality.Semantic.DeepEqualWithNilDifferentFromEmpty(got, sentMetadata(t, state, podKind))
	}
	pod := got.DeepCopyObject().(*corev1.Pod)
	pod.TypeMeta = metav1.TypeMeta{}
	return apiequality.Semantic.DeepEqual(pod, state)
}

// checkEnd checks that each form shows what the server has, and that no more watches exist than needed.
func (s *schedule) checkEnd() {
	truth := s.Versions(corev1.SchemeGroupVersion.WithResource("pods"))
	for form, replay := range s.forms {
		_, list := forms(podKind)[form]()
		if err := s.cache.List(s.ctx(), list); err != nil {
			s.Fatalf("%s: %v", form, err)
		}
		for what, objects := range map[string]map[client.ObjectKey]client.Object{
			"list": itemsByKey(s.world, list), "handler": replay.end(),
		} {
			s.checkAll(form, objects)
			if len(objects) != len(truth) {
				s.Errorf("%s: the %s has %d pods, the server %d", form, what, len(objects), len(truth))
			}
			for key, obj := range objects {
				version := truth[object.Key{Namespace: key.Namespace, Name: key.Name}]
				if obj.GetResourceVersion() != version {
					held := obj.GetResourceVersion()
					s.Errorf("%s: the %s has %v at %s, the server at %s", form, what, key, held, version)
				}
			}
		}
	}
	if n := tidingsruntime.InFactory(s.cache); n != len(s.watches) {
		s.Errorf("%d stores, want %d: %v", n, len(s.watches), s.watches)
	}
}

// formReplay is a handler that keeps what it was told, and checks it.
type formReplay struct {
	schedule *schedule
	form     string

	mu      sync.Mutex
	objects map[client.ObjectKey]client.Object
	ended   bool
}

// end returns the objects. The handler must not be called after it.
func (r *formReplay) end() map[client.ObjectKey]client.Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	return r.objects
}

func (r *formReplay) OnAdd(obj any, _ bool) { r.set(nil, obj.(client.Object)) }

func (r *formReplay) OnUpdate(old, obj any) { r.set(old.(client.Object), obj.(client.Object)) }

func (r *formReplay) set(old, obj client.Object) {
	r.schedule.checkObject(r.form, obj)
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(obj)
	r.notice(key, old)
	r.objects[key] = obj
}

func (r *formReplay) OnDelete(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(obj.(client.Object))
	r.notice(key, r.objects[key])
	delete(r.objects, key)
}

// notice checks a notification whose object was in the old state before; nil if there was none. The lock is held.
func (r *formReplay) notice(key client.ObjectKey, old client.Object) {
	r.schedule.notified.Add(1)
	before := r.objects[key]
	switch {
	case r.ended:
		r.schedule.Errorf("%s: notified of %v after the end", r.form, key)
	case (old == nil) != (before == nil):
		r.schedule.Errorf("%s: %v was %v, and is said to have been %v", r.form, key, before, old)
	case old != nil && old.GetResourceVersion() != before.GetResourceVersion():
		r.schedule.Errorf("%s: %v was at %s, and is said to have been at %s", r.form, key, before.GetResourceVersion(),
			old.GetResourceVersion())
	}
}
