// Package manager runs the built-in controllers in one process: caches, leader election, health,
// metrics, and a shutdown that releases the lease.
package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/replicaset"
)

// defaultWorkers is the number of workers of upstream's controllers.
const defaultWorkers = 5

// stopGrace is how long the process waits for its informers to stop after everything else has. It
// is short enough to end before Kubernetes kills a process, 30 seconds after the signal.
const stopGrace = 5 * time.Second

// constructor creates one of the controllers.
type constructor func(*tidings.Factory, replicaset.Options) (*controller.Controller, error)

var constructors = map[string]constructor{
	"replicaset":            replicaset.NewReplicaSet,
	"replicationcontroller": replicaset.NewReplicationController,
}

// Names returns the sorted names of the available controllers.
func Names() []string {
	return []string{"replicaset", "replicationcontroller"}
}

// Options configures Run.
type Options struct {
	// Controllers are the names of the controllers to run; see Select.
	Controllers []string
	// Namespaces limits the controllers to these; empty means all.
	Namespaces []string
	// Workers is the number of workers by controller; the default is 5.
	Workers map[string]int
	// Election configures leader election; nil means that this process always acts.
	Election *Election
	// BindAddress is the address on which health and metrics are served.
	BindAddress string
	// Profiling also serves /debug/pprof.
	Profiling bool
	Logger    *slog.Logger
}

// Election configures the Lease for leader election.
type Election struct {
	Namespace, Name string
	Duration        time.Duration
}

// Select resolves the words of --controllers: a name, "*" for all, "-name" for all but this one.
func Select(words []string) ([]string, error) {
	var chosen, without []string
	for _, word := range words {
		name, minus := strings.CutPrefix(word, "-")
		switch {
		case word == "*":
			chosen = append(chosen, Names()...)
		case constructors[name] == nil:
			return nil, fmt.Errorf("there is no controller %q; available: %s", name, strings.Join(Names(), ", "))
		case minus:
			without = append(without, name)
		default:
			chosen = append(chosen, name)
		}
	}
	chosen = slices.DeleteFunc(chosen, func(name string) bool { return slices.Contains(without, name) })
	slices.Sort(chosen)
	if chosen = slices.Compact(chosen); len(chosen) == 0 {
		return nil, fmt.Errorf("no controller is left to run; available: %s", strings.Join(Names(), ", "))
	}
	return chosen, nil
}

// Run runs the controllers until ctx ends. In that case it returns nil, after everything has
// stopped and the lease has been released. It returns an error if something could not start or the
// lease was lost.
func Run(ctx context.Context, config *rest.Config, opts Options) error {
	listener, err := net.Listen("tcp", opts.BindAddress)
	if err != nil {
		return fmt.Errorf("cannot serve health and metrics: %w; choose another --bind-address", err)
	}
	defer listener.Close()
	p, err := newProcess(config, opts)
	if err != nil {
		return err
	}
	return p.run(ctx, listener)
}

// process is everything that runs.
type process struct {
	opts        Options
	factory     *tidings.Factory
	broadcaster record.EventBroadcaster
	manager     *controller.Manager
	elector     *controller.LeaseElector // nil without leader election
}

func newProcess(config *rest.Config, opts Options) (*process, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	p := &process{opts: opts}
	if p.factory, err = tidings.NewFactory(config, tidings.Options{Logger: opts.Logger}); err != nil {
		return nil, err
	}
	p.broadcaster = record.NewBroadcaster()
	p.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	if err = p.elect(config); err == nil {
		err = p.addControllers(client)
	}
	if err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// run serves health and metrics and runs the controllers until ctx ends, and stops everything.
// After ErrStillRunning it stops nothing: another process may act soon, and this one has to be
// gone.
func (p *process) run(ctx context.Context, listener net.Listener) error {
	stopServing := p.serve(listener)
	err := p.runControllers(ctx, listener.Addr())
	if errors.Is(err, controller.ErrStillRunning) {
		return err
	}
	stopServing()
	p.end()
	return err
}

func (p *process) runControllers(ctx context.Context, address net.Addr) error {
	if err := p.factory.Start(context.WithoutCancel(ctx)); err != nil { // end stops it, after the controllers
		return err
	}
	p.opts.Logger.Info("started", "controllers", p.opts.Controllers, "address", address.String())
	err := p.manager.Run(ctx)
	p.opts.Logger.Info("stopping")
	return err
}

// elect creates the manager, with an elector if leader election is on. The elector has its own
// client, so that neither rate limits nor other requests of the process can delay the renewal of
// the lease.
func (p *process) elect(config *rest.Config) (err error) {
	if p.opts.Election == nil {
		p.manager = controller.NewManager(nil)
		return nil
	}
	election := p.opts.Election
	p.elector, err = controller.NewLeaseElector(config, election.Namespace, election.Name)
	if err != nil {
		return err
	}
	p.elector.Duration, p.elector.Logger, p.elector.Events = election.Duration, p.opts.Logger, p.recorder()
	p.manager = controller.NewManager(p.elector)
	return nil
}

// recorder records events of this process.
func (p *process) recorder() record.EventRecorder {
	return p.broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "tidings-controller-manager"})
}

func (p *process) addControllers(client kubernetes.Interface) error {
	events := p.recorder()
	for _, name := range p.opts.Controllers {
		workers := p.opts.Workers[name]
		if workers == 0 {
			workers = defaultWorkers
		}
		c, err := constructors[name](p.factory, replicaset.Options{
			Client: client, Events: events, Namespaces: p.opts.Namespaces,
			Controller: controller.Options{Workers: workers, Logger: p.opts.Logger},
		})
		if err != nil {
			return err
		}
		if err := p.manager.Add(c); err != nil {
			return err
		}
	}
	return nil
}

// end stops the event broadcaster and the factory. An informer whose request does not end, for
// example because of a credential plugin that hangs, only reads, and ends with the process.
func (p *process) end() {
	p.broadcaster.Shutdown()
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	if err := p.factory.Shutdown(ctx); err != nil {
		p.opts.Logger.Warn("exiting before all informers have stopped", "error", err)
	}
}
