// Package soak runs informers with hundreds of handlers against a real control plane that is
// written to, killed, restarted, restored from a backup and disconnected, and checks again and
// again that they have the server's state.
package soak

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

// Options configures a run.
type Options struct {
	Duration time.Duration
	// Handlers is the number of handlers at a time, over all informers. Writers write as fast as the server accepts it.
	Handlers, Writers int
	Seed              uint64
	// Informers are the options of the factory; tight budgets belong here.
	Informers tidings.Options
	// Log receives a message about each fault.
	Log *slog.Logger
}

// Sample is the state of the process at one time.
type Sample struct {
	At         time.Duration
	Heap       uint64 // live bytes
	Goroutines int
	Events     uint64
}

// Rest is the live heap while nothing was written, every handler had received everything, and
// everything equaled the server's state.
type Rest struct {
	At      time.Duration
	Heap    uint64 // bytes
	Objects int    // in all stores
}

// Report is the result of a run.
type Report struct {
	Options  Options
	Took     time.Duration
	Faults   map[string]int
	FaultsAt []time.Duration
	Writes   uint64 // successful ones
	// Notified counts the calls of all handlers, Panics those that panicked, Replaced the handlers
	// that were removed and added again.
	Notified, Panics, Replaced uint64
	// Checks is the number of comparisons, and Divergences the differences found.
	Checks      int
	Divergences []string
	// Audits, Relists, Rewrites and Stalls are the informers' own counts.
	Audits, AuditsInconclusive, AuditDifferences, Relists, Rewrites, Stalls uint64
	// Inconclusive has the reasons of the latest inconclusive audits.
	Inconclusive []string
	Samples      []Sample
	Rests        []Rest
	// GoroutinesBefore and After are the numbers before the informers started and after they stopped.
	GoroutinesBefore, GoroutinesAfter int
	// Stacks are the stacks of all goroutines at that time, if some leaked.
	Stacks string
}

// soak is a run.
type soak struct {
	opts   Options
	began  time.Time
	plane  *controlplane.ControlPlane
	data   string // the control plane's data folder
	client kubernetes.Interface
	// disconnect closes the connections of client.
	disconnect func()
	network    *network

	// writing is read-locked for each write, and while handlers are replaced, and locked while everything is compared.
	writing sync.RWMutex
	writes  atomic.Uint64
	crowd   crowd
	follows []follow
	factory *tidings.Factory
	report  *Report
}

// Run runs the soak test for the duration, or until ctx ends. The error is about the test itself;
// failures of the informers are in the report.
func Run(ctx context.Context, opts Options) (report *Report, err error) {
	klog.SetLogger(klog.Logger{}) // writers fail whenever the server is down
	data, err := os.MkdirTemp("", "soak-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	s := &soak{opts: opts, data: data + "/plane", network: &network{}, report: &Report{Options: opts, Faults: map[string]int{}}}
	s.plane, err = controlplane.Launch(ctx, controlplane.Options{
		DataDir: s.data, UnsafeNoFsync: true, Logger: opts.Log, Args: []string{"--etcd-compaction-interval=30s"},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, s.plane.Close(end))
	}()
	connections, err := rest.HTTPClientFor(s.plane.Config())
	if err != nil {
		return nil, err
	}
	if s.client, err = kubernetes.NewForConfigAndClient(s.plane.Config(), connections); err != nil {
		return nil, err
	}
	s.disconnect = func() { utilnet.CloseIdleConnectionsFor(connections.Transport) } // http.Client does not look into client-go's wrappers
	return s.report, s.run(ctx, data+"/backup")
}

func (s *soak) run(ctx context.Context, backup string) error {
	runtime.GC()
	s.report.GoroutinesBefore = runtime.NumGoroutine()
	if err := s.start(ctx); err != nil {
		return err
	}
	s.began = time.Now()
	life, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	for i := range s.opts.Writers {
		workers.Go(func() { s.write(life, rand.New(rand.NewPCG(s.opts.Seed, uint64(i)))) })
	}
	workers.Go(func() { s.crowd.churn(life, s.writing.RLocker(), rand.New(rand.NewPCG(s.opts.Seed, 1000))) })
	workers.Go(func() { s.sample(life) })
	err := s.disturb(life, backup)
	stop()
	workers.Wait()
	s.report.Took = time.Since(s.began)
	s.count()
	err = errors.Join(err, s.factory.Shutdown(context.WithoutCancel(ctx)))
	s.network.cut()
	s.disconnect()
	s.report.GoroutinesAfter = settled(s.report.GoroutinesBefore)
	if s.report.GoroutinesAfter > s.report.GoroutinesBefore {
		s.report.Stacks = stacks()
	}
	return err
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	var b strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1) // writing to a builder cannot fail
	return b.String()
}

// settled returns the number of remaining goroutines once it is low enough, or after a minute.
func settled(few int) int {
	n := runtime.NumGoroutine()
	for range 60 {
		if n <= few {
			break
		}
		time.Sleep(time.Second) // goroutines of closed connections end later, without notification
		n = runtime.NumGoroutine()
	}
	return n
}

// start starts the informers with their handlers.
func (s *soak) start(ctx context.Context) error {
	config := s.plane.Config()
	config.Dial = s.network.dial
	var err error
	if s.factory, err = tidings.NewFactory(config, s.opts.Informers); err != nil {
		return err
	}
	if err := s.follow(); err != nil {
		return err
	}
	for range s.opts.Handlers {
		if err := s.crowd.add(); err != nil {
			return err
		}
	}
	if err := s.factory.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return s.factory.WaitForSync(wait)
}

// sample samples the process some hundred times.
func (s *soak) sample(ctx context.Context) {
	ticker := time.NewTicker(max(time.Second, s.opts.Duration/200))
	defer ticker.Stop()
	for {
		s.report.Samples = append(s.report.Samples, Sample{
			At: time.Since(s.began), Heap: live(), Goroutines: runtime.NumGoroutine(), Events: s.crowd.notified.Load(),
		})
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// live returns the live bytes of the heap.
func live() uint64 {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return memory.HeapAlloc
}

// count records the informers' own counts.
func (s *soak) count() {
	r := s.report
	r.Writes, r.Notified, r.Replaced = s.writes.Load(), s.crowd.notified.Load(), s.crowd.replaced.Load()
	r.Panics = s.crowd.panics.Load()
	for _, st := range s.factory.Status() {
		for _, p := range st.Parts {
			r.Audits += p.Audit.Completed
			r.AuditsInconclusive += p.Audit.Inconclusive
			if p.Audit.Err != nil {
				r.Inconclusive = append(r.Inconclusive, p.Audit.Err.Error())
			}
			r.AuditDifferences += p.Audit.Differences
			r.Relists += p.Reflector.Relists
			r.Rewrites += p.Reflector.Rewrites
			r.Stalls += p.Reflector.Stalls
		}
	}
}

// mostGrowth is the maximum growth of the heap from the second to the last quarter: relists leave
// some garbage for a while.
const mostGrowth = 1.2

// Err returns what went wrong: a divergence, leaked goroutines, or memory growth.
func (r *Report) Err() error {
	var errs []error
	for _, d := range r.Divergences {
		errs = append(errs, errors.New(d))
	}
	if r.Checks == 0 {
		errs = append(errs, errors.New("nothing was ever compared"))
	}
	if early, late := r.restOf(1), r.restOf(3); late.Heap > mostGrowth*early.Heap+1 && early.Heap > 0 {
		errs = append(errs, fmt.Errorf("the heap grew from %.1f to %.1f MB, with %.0f and %.0f objects", early.Heap, late.Heap, early.Objects, late.Objects))
	}
	if r.GoroutinesAfter > r.GoroutinesBefore {
		errs = append(errs, fmt.Errorf("%d goroutines are left of the informers", r.GoroutinesAfter-r.GoroutinesBefore))
	}
	return errors.Join(errs...)
}
