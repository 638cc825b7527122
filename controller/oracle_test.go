package controller_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/internal/latewatch"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

var sequencesFlag = flag.Int("sequences", 300, "how many random sequences of writes TestNeverBehindOwnWrites runs")

// TestNeverBehindOwnWrites makes random writes by two reconcilers and by somebody else, and holds what reconciles and reads
// see against a model: the list of all states that each object has had. After a write, a cache may show any state from the
// write on, and nothing may wait for longer than the caches are late.
//
// A sequence has caches that are late, with labels, and with namespaces that come and go; a second cluster; lost and late
// answers; restores; clients of two kinds, generated names, and all verbs.
func TestNeverBehindOwnWrites(t *testing.T) {
	testseed.Each(t, 1, func(t *testing.T, first uint64) {
		var total oracleCounts
		for i := range *sequencesFlag {
			synctest.Test(t, func(t *testing.T) { runOracle(t, first+uint64(i), &total) })
			if t.Failed() {
				t.Fatalf("the sequence with the seed %d", first+uint64(i))
			}
		}
		t.Logf("%d sequences: %+v", *sequencesFlag, total)
		if total.waits == 0 || total.lookups == 0 || total.reads == 0 || total.lost == 0 || total.elsewhere == 0 {
			t.Error("the sequences did not do everything")
		}
		if total.lateAnswers == 0 || total.restores == 0 {
			t.Error("the sequences did not do everything")
		}
	})
}

// oracleCounts says what sequences have done.
type oracleCounts struct {
	writes, lost, lateAnswers, restores, elsewhere, reads, reconciles, waits, lookups int

	slowest time.Duration
}

// podState is a state of a pod in the model.
type podState struct {
	uid         types.UID
	version     string
	role        string
	exists, end bool // end: it is being deleted
}

// oracle is a sequence with its model.
type oracle struct {
	*testing.T
	number    func(int) int
	counts    *oracleCounts
	server    *tidingstest.Server
	elsewhere kubernetes.Interface // writes to the other cluster
	client    kubernetes.Interface
	metadata  metadata.Interface
	plain     kubernetes.Interface
	writes    *controller.OwnWrites
	caches    []*oracleCache
	restored  bool
	late      time.Duration
	maxWait   time.Duration
	log       []string

	mu sync.Mutex
	// states has all states of each pod, from the first on.
	states map[tidings.Key][]podState
	// own has, for each key and for all reads ("", the zero key), what it has written.
	own map[tidings.Key]map[tidings.Key]ownWrite
}

// ownWrite is what a write has left: a number among the states of a pod.
type ownWrite struct {
	pod   tidings.Key
	state int
	// soft is set if it is enough that the pod is being deleted.
	soft bool
}

type oracleCache struct {
	*tidings.SharedInformer[*corev1.Pod]
	labeled    bool
	namespaces []string // nil: all
	// left has the writes to a namespace that the cache had shown when it was removed last. It starts anew after that.
	left map[ownWrite]bool
}

func (c *oracleCache) has(namespace string) bool {
	return c.namespaces == nil || slices.Contains(c.namespaces, namespace)
}

// shows returns what the cache has to show of a state.
func (c *oracleCache) shows(s podState) podState {
	if c.labeled && s.role != "own" {
		return podState{}
	}
	return s
}

var (
	oracleNames      = []string{"a", "b", "c"}
	oracleNamespaces = []string{"default", "other"}
	oraclePods       = corev1.SchemeGroupVersion.WithResource("pods")
)

func runOracle(t *testing.T, seed uint64, counts *oracleCounts) {
	o := &oracle{
		T: t, number: rand.New(rand.NewPCG(seed, 0)).IntN, counts: counts, states: map[tidings.Key][]podState{},
		own: map[tidings.Key]map[tidings.Key]ownWrite{},
	}
	o.late = time.Duration(o.number(2000)) * time.Millisecond
	if o.number(8) == 0 { // so that writes are looked up although the server has confirmed them
		o.late, o.maxWait = o.late+5*time.Second, time.Minute
	}
	o.server = tidingstest.NewServer(t, tidingstest.ServerOptions{})
	anchor := o.pod("default", "anchor", "own") // stays: a cache without objects counts as one of every cluster
	anchor.Finalizers = []string{"example.com/x"}
	o.server.Create(anchor)
	for _, name := range oracleNames {
		if o.number(2) == 0 {
			o.server.Create(o.pod("default", name, o.role()))
		}
	}
	o.observe()
	o.connect()
	factory := must(tidings.NewFactory(o.lateConfig(), tidings.Options{Logger: slog.New(slog.DiscardHandler)}))
	times := make(chan time.Time, 10)
	var act func(ctx context.Context, key tidings.Key)
	c := controller.New("oracle", func(ctx context.Context, key tidings.Key) (controller.Result, error) {
		o.check(key, nil)
		if act != nil && key.Name != "unrelated" {
			act(ctx, key)
		}
		times <- time.Now()
		return controller.Result{}, nil
	}, controller.Options{Logger: slog.New(slog.DiscardHandler), MaxGateWait: o.maxWait})
	for _, scope := range []tidings.Scope{{}, {Labels: "role=own", Namespaces: []string{"default"}}, {Namespaces: []string{"default"}}} {
		if o.number(2) == 0 && len(o.caches) > 0 {
			continue
		}
		inf := must(tidings.Informer[*corev1.Pod](factory, scope))
		o.caches = append(o.caches, &oracleCache{SharedInformer: inf, labeled: scope.Labels != "", namespaces: scope.Namespaces})
		must(0, controller.Use(c, inf))
		o.writes.Add(untyped[*corev1.Pod]{inf})
		_, err := inf.HandleKeys("own writes", func(tidings.Key, object.DeltaType, bool) { o.writes.Changed() })
		must(0, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	must(0, factory.Start(ctx))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	time.Sleep(time.Minute)
	for range 1 + o.number(4) {
		key := tidings.Key{Namespace: "default", Name: []string{"one", "two"}[o.number(2)]}
		backup := o.server.Snapshot()
		act = o.act
		c.Enqueue(key)
		wrote := <-times
		act = nil
		c.Enqueue(key)
		began := time.Now()
		c.Enqueue(tidings.Key{Name: "unrelated"})
		if <-times; time.Since(began) > 0 && time.Since(wrote) == 0 {
			o.Errorf("an unrelated key waited for %v", time.Since(began))
		}
		if o.number(2) == 0 {
			o.somebodyElse()
		}
		<-times
		o.waited("a key", time.Since(wrote))
		if o.number(8) == 0 {
			o.restore(backup)
			for len(times) > 0 { // keys whose creations were undone have come back
				<-times
			}
		}
	}
	st := c.Stats()
	if st.GateTimeouts > 0 && !o.restored { // what a restore has undone may be missed once its time is over
		o.Errorf("%d waits were too long", st.GateTimeouts)
	}
	counts.waits += int(st.GateWaits)
	counts.lookups += int(st.GateLookups)
	counts.reconciles += int(st.Reconciles)
	if t.Failed() {
		t.Logf("seed %d, caches %v late:\n%s", seed, o.late, strings.Join(o.log, "\n"))
	}
	cancel()
	must(0, <-ended)
	must(0, factory.Shutdown(context.Background()))
}

// connect makes the clients.
func (o *oracle) connect() {
	o.writes = controller.NewOwnWrites(o.maxWait, func(context.Context) bool { return true })
	config := o.server.Config()
	config.Wrap(o.writes.Wrap)
	config.Wrap(controller.TrackWrites)
	o.client, o.metadata = kubernetes.NewForConfigOrDie(config), metadata.NewForConfigOrDie(config)
	o.plain = kubernetes.NewForConfigOrDie(o.server.Config())
	server := tidingstest.NewServer(o.T, tidingstest.ServerOptions{})
	other := server.Config()
	other.Host = "http://other.test"
	other.Wrap(o.writes.Wrap)
	other.Wrap(controller.TrackWrites)
	o.elsewhere = kubernetes.NewForConfigOrDie(other)
}

// created returns an object that is no pod, and that it has created.
func (o *oracle) created(server *tidingstest.Server) tidings.Object {
	cm := lateConfigMap("x")
	server.Create(cm)
	return cm
}

// waited fails if somebody has waited for longer than the caches are late. What is looked up may take a second more, for
// each time that the answer is followed by another change.
func (o *oracle) waited(who string, waited time.Duration) {
	o.counts.slowest = max(o.counts.slowest, waited)
	limit := o.late + 3*time.Second
	if o.late > 5*time.Second { // its watch may end meanwhile, and what the next one brings is late again
		limit += o.late
	}
	if waited > limit {
		o.Errorf("%s waited for %v, and the caches are %v late", who, waited, o.late)
	}
}

func (o *oracle) pod(namespace, name, role string) *corev1.Pod {
	p := latePod(name)
	p.Namespace, p.Labels = namespace, map[string]string{"role": role}
	if o.number(3) == 0 {
		p.Finalizers = []string{"example.com/x"}
	}
	return p
}

func (o *oracle) role() string { return []string{"own", "other"}[o.number(2)] }

// observe adds the present states to the model. The caller holds mu, or is alone.
func (o *oracle) observe() {
	now := map[tidings.Key]podState{}
	for _, p := range o.server.Objects(oraclePods) {
		now[object.KeyOf(p)] = podState{p.GetUID(), p.GetResourceVersion(), p.GetLabels()["role"], true, p.GetDeletionTimestamp() != nil}
	}
	for key := range o.states {
		if _, ok := now[key]; !ok {
			now[key] = podState{}
		}
	}
	for key, s := range now {
		all := o.states[key]
		if len(all) == 0 {
			all = append(all, podState{})
		}
		if all[len(all)-1] != s {
			all = append(all, s)
		}
		o.states[key] = all
	}
}

// did records what a write of the key has left of the pod.
func (o *oracle) did(key tidings.Key, soft bool, pod tidings.Key) {
	for _, by := range []tidings.Key{key, {}} {
		if o.own[by] == nil {
			o.own[by] = map[tidings.Key]ownWrite{}
		}
		o.own[by][pod] = ownWrite{pod, len(o.states[pod]) - 1, soft}
	}
}

// check fails if a cache shows a pod as it was before a write of the key, or only the one pod if that is not nil.
func (o *oracle) check(key tidings.Key, one *tidings.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, cache := range o.caches {
		for pod, write := range o.own[key] {
			if !cache.has(pod.Namespace) || one != nil && pod != *one || cache.left[write] {
				continue
			}
			if held, ok := o.shown(cache, write); !ok {
				o.Errorf("%v: a cache of %v (labeled %v) has %+v of %v, but the states are %+v, of which it wrote number %d",
					key, cache.namespaces, cache.labeled, held, pod, o.states[pod], write.state)
			}
		}
	}
}

// shown returns what the cache holds of the written pod, and whether that is its state after the write or a later one.
func (o *oracle) shown(cache *oracleCache, write ownWrite) (held podState, ok bool) {
	if p, ok := cache.Get(write.pod); ok {
		held = podState{p.UID, p.ResourceVersion, p.Labels["role"], true, p.DeletionTimestamp != nil}
	}
	all := o.states[write.pod]
	if len(all) == 0 {
		return held, held == podState{}
	}
	for i := max(write.state, 0); i < len(all); i++ {
		// The server stores a pod as being deleted before it removes it, which the model does not see.
		removed := i+1 < len(all) && !all[i+1].exists && held.end && held.uid == all[i].uid
		if cache.shows(all[i]) == held || removed {
			return held, true
		}
	}
	return held, write.soft && held.end
}

// somebodyElse makes a change that nobody tracks.
func (o *oracle) somebodyElse() {
	o.mu.Lock()
	defer o.mu.Unlock()
	what, _ := o.write(context.Background(), o.plain, tidings.Key{Namespace: o.namespace(), Name: oracleNames[o.number(3)]})
	o.log = append(o.log, "somebody else: "+what)
	o.observe()
}

func (o *oracle) namespace() string { return oracleNamespaces[o.number(4)/3] }

// restore takes the server back to the backup, and waits until the caches know. What was written since is not expected
// any more.
func (o *oracle) restore(backup tidingstest.Snapshot) {
	o.counts.restores++
	o.restored = true
	o.log = append(o.log, "restore")
	o.mu.Lock()
	clear(o.own)
	o.mu.Unlock()
	o.server.Restore(backup)
	time.Sleep(5 * time.Minute)
	for range o.number(2) * 50 { // past the version of before, while nobody looks
		o.server.Delete(o.created(o.server))
	}
	time.Sleep(time.Minute)
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.states)
	o.observe()
}

// act makes the writes of a reconcile.
func (o *oracle) act(ctx context.Context, key tidings.Key) {
	for range 1 + o.number(4) {
		if o.number(3) == 0 {
			time.Sleep(time.Duration(o.number(1500)) * time.Millisecond)
		}
		switch o.number(12) {
		case 0:
			o.somebodyElse()
		case 1:
			o.writeElsewhere(ctx)
		case 2:
			o.moveNamespaces(ctx)
		case 3, 4:
			o.read()
		default:
			o.writeOwn(ctx, key)
		}
	}
}

// writeOwn makes one write of the key, whose answer may be lost.
func (o *oracle) writeOwn(ctx context.Context, key tidings.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lost := o.number(5) == 0
	if lost {
		o.counts.lost++
		o.server.Inject(tidingstest.Write, tidingstest.Fault{HangUp: true, Applied: o.number(3) > 0})
	} else if o.number(5) == 0 {
		o.counts.lateAnswers++
		o.server.Inject(tidingstest.Write, tidingstest.Fault{Delay: time.Duration(o.number(3000)) * time.Millisecond})
	}
	pod := tidings.Key{Namespace: o.namespace(), Name: oracleNames[o.number(3)]}
	o.observe()
	before := map[tidings.Key]int{}
	for key, all := range o.states {
		before[key] = len(all)
	}
	what, soft := o.write(ctx, o.client, pod)
	o.observe()
	o.server.ClearFaults()
	o.log = append(o.log, fmt.Sprintf("%s: %s, lost %v", key.Name, what, lost))
	o.counts.writes++
	if strings.HasSuffix(what, "<nil>") && !strings.HasPrefix(what, "collection") && !strings.HasPrefix(what, "generate") {
		o.did(key, soft, pod)
	}
	for changed, all := range o.states {
		if len(all) != before[changed] {
			o.did(key, soft || strings.HasPrefix(what, "collection") && all[len(all)-1].exists, changed)
		}
	}
}

// write makes a random write to a pod. soft is set if it is enough that the pod is being deleted.
func (o *oracle) write(ctx context.Context, client kubernetes.Interface, pod tidings.Key) (what string, soft bool) {
	c := client.CoreV1().Pods(pod.Namespace)
	patch := func(p string) error {
		if client == o.client && o.number(3) == 0 {
			return done(o.metadata.Resource(oraclePods).Namespace(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(p), metav1.PatchOptions{}))
		}
		return done(c.Patch(ctx, pod.Name, types.MergePatchType, []byte(p), metav1.PatchOptions{}))
	}
	var err error
	switch o.number(15) {
	case 0, 1, 2:
		p := o.pod(pod.Namespace, pod.Name, o.role())
		what, err = "create "+p.Labels["role"], done(c.Create(ctx, p, metav1.CreateOptions{}))
	case 3:
		what, err = "own", patch(`{"metadata":{"labels":{"role":"own"}}}`)
	case 4:
		what, err = "other", patch(`{"metadata":{"labels":{"role":"other"}}}`)
	case 5:
		what, err = "hold", patch(`{"metadata":{"finalizers":["example.com/x"]}}`)
	case 6:
		what, err = "free", patch(`{"metadata":{"finalizers":null}}`)
	case 7:
		what, err = "delete", c.Delete(ctx, pod.Name, metav1.DeleteOptions{})
	case 8:
		what, err = "force", c.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	case 9:
		what, soft = "evict", true
		err = c.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}})
	case 10:
		options := metav1.ListOptions{LabelSelector: []string{"role=own", ""}[o.number(2)]}
		how := metav1.DeleteOptions{}
		if soft = o.number(2) == 0; !soft {
			how.GracePeriodSeconds = new(int64)
		}
		what = fmt.Sprintf("collection %s, forced %v,", options.LabelSelector, !soft)
		err = c.DeleteCollection(ctx, how, options)
	case 11:
		what, err = "status", done(c.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"status":{"reason":"x"}}`), metav1.PatchOptions{}, "status"))
	case 12:
		what, err = "nothing", patch(`{}`)
	case 13:
		p := o.pod(pod.Namespace, "", o.role())
		p.GenerateName = "g-"
		what, err = "generate "+p.Labels["role"], done(c.Create(ctx, p, metav1.CreateOptions{}))
	case 14:
		apply := applycorev1.Pod(pod.Name, pod.Namespace).WithLabels(map[string]string{"role": o.role()}).
			WithSpec(applycorev1.PodSpec().WithContainers(applycorev1.Container().WithName("c").WithImage("i")))
		options := metav1.ApplyOptions{FieldManager: "oracle", Force: true}
		what, err = "apply "+apply.Labels["role"], done(c.Apply(ctx, apply, options))
	}
	return fmt.Sprintf("%s %v: %v", what, pod, err), soft
}

// writeElsewhere makes a write to the other cluster.
func (o *oracle) writeElsewhere(ctx context.Context) {
	o.counts.elsewhere++
	pod := o.pod("default", oracleNames[o.number(3)], "own")
	_, err := o.elsewhere.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	o.log = append(o.log, fmt.Sprint("elsewhere: create ", pod.Name, ": ", err))
}

// moveNamespaces adds or removes a namespace of a cache.
func (o *oracle) moveNamespaces(ctx context.Context) {
	cache := o.caches[o.number(len(o.caches))]
	if cache.namespaces == nil {
		return
	}
	namespaces := []string{"default"}
	if len(cache.namespaces) == 1 {
		namespaces = oracleNamespaces
	} else {
		o.leave(cache)
	}
	if cache.SetNamespaces(ctx, namespaces...) == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		cache.namespaces = namespaces
		o.log = append(o.log, fmt.Sprint("namespaces: ", namespaces))
	}
}

// leave records which writes a cache shows that is about to lose a namespace.
func (o *oracle) leave(cache *oracleCache) {
	o.mu.Lock()
	defer o.mu.Unlock()
	cache.left = map[ownWrite]bool{}
	for _, writes := range o.own {
		for _, write := range writes {
			if _, ok := o.shown(cache, write); ok && write.pod.Namespace == "other" {
				cache.left[write] = true
			}
		}
	}
}

// read waits for a pod, or for all, as a reader does, and checks what the caches show.
func (o *oracle) read() {
	o.counts.reads++
	pod := tidings.Key{Namespace: o.namespace(), Name: oracleNames[o.number(3)]}
	began := time.Now()
	one := &pod
	if o.number(3) == 0 {
		one, pod.Name = nil, ""
		pod.Namespace = ""
	}
	if err := o.writes.Wait(o.Context(), oraclePods.GroupResource(), pod); err != nil {
		o.Errorf("a read of %v: %v", pod, err)
	}
	o.log = append(o.log, fmt.Sprint("read ", pod))
	o.waited("a read", time.Since(began))
	o.check(tidings.Key{}, one)
}

func (o *oracle) lateConfig() *rest.Config {
	config := o.server.Config()
	config.Wrap(latewatch.Wrap(o.late))
	return config
}

// untyped is a cache of objects of any type.
type untyped[T tidings.Object] struct{ *tidings.SharedInformer[T] }

func (u untyped[T]) HandleDeltas(string, func(object.Delta[object.Object])) (func(), error) {
	panic("not called")
}

func (u untyped[T]) Covers(o object.Object) bool { covers, _ := u.CoversMetadata(o); return covers }

func (u untyped[T]) Get(key tidings.Key) (object.Object, bool) {
	o, ok := u.SharedInformer.Get(key)
	return o, ok
}
