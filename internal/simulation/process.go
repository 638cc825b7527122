package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/object"
)

// processPool manages the processes that compete for the lease. Its methods are called from the run's goroutine.
type processPool struct {
	r         *run
	ctx       context.Context
	processes [2]*process
	started   int
	ledger    *ledger
}

func newShift(r *run, ctx context.Context) *processPool {
	s := &processPool{r: r, ctx: ctx, ledger: newLedger(r)}
	for i := range s.processes {
		s.processes[i] = s.startProcess()
	}
	return s
}

// startProcess starts a process under a new name, like a restarted container.
func (s *processPool) startProcess() *process {
	s.started++
	id := fmt.Sprint("process-", s.started)
	p, err := s.r.config.Mode.process(s.r, id, s.ledger)
	if err != nil {
		s.r.diverge("cannot start %s: %v", id, err)
		return nil
	}
	p.run(s.ctx)
	return p
}

// restartEnded restarts processes that have ended.
func (s *processPool) restartEnded() {
	for i, p := range s.processes {
		if p == nil {
			continue
		}
		select {
		case err := <-p.done:
			s.check(p, err)
			s.processes[i] = s.startProcess()
		default:
		}
	}
}

// check checks why a process ended.
func (s *processPool) check(p *process, err error) {
	if err != nil && !errors.Is(err, controller.ErrLeaseLost) && !errors.Is(err, errNotSynced) {
		s.r.diverge("%s ended: %v", p.id, err)
	}
}

// stopOne stops one process.
func (s *processPool) stopOne(random *rand.Rand) {
	if p := s.processes[random.IntN(len(s.processes))]; p != nil {
		p.cancel()
	}
}

// isolate cuts one process off from the server, long enough to lose its lease.
func (s *processPool) isolate(random *rand.Rand) {
	d := time.Duration(random.IntN(90)) * time.Second
	if p := s.processes[random.IntN(len(s.processes))]; p != nil {
		p.link.interrupt(d)
		s.r.countFault("one process cut off")
	}
}

// running returns the running processes.
func (s *processPool) running() (all []*process) {
	for _, p := range s.processes {
		if p != nil && !p.dead.Load() {
			all = append(all, p)
		}
	}
	return all
}

// stale describes how the caches of the processes differ from the server.
func (s *processPool) stale() string {
	for _, p := range s.running() {
		if d := p.stale(); d != "" {
			return fmt.Sprintf("the caches of %s are not what the server has: %s; %s", p.id, d, p.describe())
		}
	}
	return ""
}

// describe describes the state of the processes.
func (s *processPool) describe() string {
	var lines []string
	for _, p := range s.running() {
		lines = append(lines, p.describe())
	}
	return strings.Join(lines, "; ")
}

// statuses returns the statuses of the processes' caches.
func (s *processPool) statuses() (all []tidings.Status) {
	for _, p := range s.running() {
		all = append(all, p.factory.Status()...)
	}
	return all
}

// forget drops the writes that a restore may have undone.
func (s *processPool) forget() { s.ledger.forget() }

func (s *processPool) stop() {
	for _, p := range s.processes {
		if p != nil {
			p.cancel()
			s.check(p, <-p.done)
		}
	}
}

// errNotSynced ends a process whose caches do not sync in time. It breaks no promise: the process is restarted.
var errNotSynced = errors.New("the caches are not in sync")

// process is an operator: a factory with two caches, a controller behind a lease, a client, and a link to the server.
type process struct {
	id         string
	link       link
	factory    *tidings.Factory
	controller *controller.Controller
	manager    *controller.Manager
	elector    *controller.LeaseElector
	stale      func() string // how the caches differ from the server
	dead       atomic.Bool   // its Run has returned
	cancel     context.CancelFunc
	done       chan error
}

// withRole is the scope of one of a process's caches.
func withRole(role string) scope {
	return scope{resource: configResource, selector: roleLabel + "=" + role}
}

// held returns the objects in a cache.
func held[T object.Object](cache *tidings.SharedInformer[T]) map[object.Key]object.Object {
	all := map[object.Key]object.Object{}
	for key, o := range cache.Snapshot().All() {
		all[key] = o
	}
	return all
}

// workers is the number of keys that a process handles concurrently.
const workers = 3

func newProcess[T object.Object](r *run, id string, l *ledger, tracked bool, convert func(*corev1.ConfigMap) (T, error)) (*process, error) {
	p := &process{id: id, done: make(chan error, 1)}
	config := r.clientConfig()
	config.Wrap(p.link.wrap)
	if tracked {
		config.Wrap(controller.TrackWrites)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory, err := tidings.NewFactory(config, r.informerOptions(id))
	if err != nil {
		return nil, err
	}
	parents, err := tidings.Informer[T](factory, tidings.Scope{Resource: configResource, Labels: withRole("parent").selector})
	if err != nil {
		return nil, err
	}
	children, err := tidings.Informer[T](factory, tidings.Scope{Resource: configResource, Labels: withRole("child").selector})
	if err != nil {
		return nil, err
	}
	p.factory = factory
	o := &operator[T]{
		process: p, client: client, tracked: tracked, parents: parents, children: children, convert: convert, term: l.begin(p),
		byParent: children.AddIndex("parent", func(o T) []string { return []string{parentOf(o).String()} }),
	}
	p.controller = controller.New(id, o.reconcile, controller.Options{
		Workers: workers, Logger: discard(), SyncTimeout: 10 * time.Minute, MaxGateWait: 24 * time.Hour,
	})
	p.elector = newElector(r, id, client)
	p.manager = controller.NewManager(p.elector)
	p.stale = func() string {
		return cmp.Or(difference(held(parents), withRole("parent").objects(r.server)), difference(held(children), withRole("child").objects(r.server)))
	}
	return p, errors.Join(
		controller.WatchKeys(p.controller, parents),
		controller.Watch(p.controller, children, func(o T, enqueue func(object.Key)) { enqueue(parentOf(o)) }),
		p.manager.Add(p.controller),
	)
}

func newTypedProcess(r *run, id string, l *ledger) (*process, error) {
	return newProcess(r, id, l, false, func(m *corev1.ConfigMap) (*corev1.ConfigMap, error) { return m, nil })
}

func newTrackedProcess(r *run, id string, l *ledger) (*process, error) {
	return newProcess(r, id, l, true, func(m *corev1.ConfigMap) (*corev1.ConfigMap, error) { return m, nil })
}

func newUnstructuredProcess(r *run, id string, l *ledger) (*process, error) {
	return newProcess(r, id, l, false, func(m *corev1.ConfigMap) (*unstructured.Unstructured, error) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
		return &unstructured.Unstructured{Object: content}, err
	})
}

// describe describes the state of the process.
func (p *process) describe() string {
	lease, work := p.elector.Stats(), p.controller.Stats()
	line := fmt.Sprintf("%s: leads %v, %d keys wait, %d are delayed, %d worked on, %d held up by own writes, %d of %d reconciles failed",
		p.id, lease.Leading, work.Queue.Depth, work.Queue.Delayed, work.Queue.Working, work.GateWaiting, work.Errors, work.Reconciles)
	for _, status := range p.factory.Status() {
		line += fmt.Sprintf(", %s: %s", status.Scope, describe(status))
	}
	return line
}

// run runs the process until ctx ends, it is cancelled, or it loses its lease.
func (p *process) run(ctx context.Context) {
	ctx, p.cancel = context.WithCancel(ctx)
	go func() {
		err := p.factory.Start(ctx)
		if err == nil {
			err = p.manager.Run(ctx)
		}
		p.dead.Store(true)
		if _, unsynced := errors.AsType[*tidings.SyncError](err); unsynced {
			err = errNotSynced
		}
		p.cancel()
		p.done <- errors.Join(err, p.factory.Shutdown(context.Background()))
	}()
}

// The lease for which the processes compete.
const (
	leaseNamespace = "z"
	leaseName      = "operator"
)

func newElector(r *run, id string, client kubernetes.Interface) *controller.LeaseElector {
	random := newRandom(r.config.Seed, "lease of "+id)
	skew := time.Duration(random.Int64N(int64(2*time.Hour))) - time.Hour
	return &controller.LeaseElector{
		Client: skewedClock{client.CoordinationV1().Leases(leaseNamespace), skew},
		Name:   leaseName, Identity: id, Duration: 30 * time.Second, Rand: random.Float64, Logger: discard(),
	}
}

// skewedClock is a lease client on a machine whose clock is wrong, and sometimes jumps by as much again.
type skewedClock struct {
	controller.LeaseClient
	skew time.Duration
}

func (c skewedClock) Create(ctx context.Context, l *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return c.LeaseClient.Create(ctx, c.shift(l), o)
}

func (c skewedClock) Update(ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return c.LeaseClient.Update(ctx, c.shift(l), o)
}

func (c skewedClock) shift(l *coordinationv1.Lease) *coordinationv1.Lease {
	l = l.DeepCopy()
	skew := c.skew
	if time.Now().Minute()%2 == 0 {
		skew *= 2
	}
	for _, at := range []*metav1.MicroTime{l.Spec.AcquireTime, l.Spec.RenewTime} {
		if at != nil {
			at.Time = at.Add(skew)
		}
	}
	return l
}
