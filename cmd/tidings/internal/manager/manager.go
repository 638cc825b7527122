// Package manager runs the built-in controllers as one process: caches, leader election, health, metrics, and an end
// that gives the lease back.
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

// defaultWorkers is how many workers upstream's controllers have.
const defaultWorkers = 5

// stopGrace is how long the end may take before the process gives up waiting.
const stopGrace = 30 * time.Second

// constructor makes one of the controllers.
type constructor func(*tidings.Factory, replicaset.Options) (*controller.Controller, error)

var constructors = map[string]constructor{
	"replicaset":            replicaset.NewReplicaSet,
	"replicationcontroller": replicaset.NewReplicationController,
}

// Names are the controllers that there are, sorted.
func Names() []string {
	return []string{"replicaset", "replicationcontroller"}
}

// Options say what to run and how.
type Options struct {
	// Controllers are names of controllers; see Select.
	Controllers []string
	// Namespaces limits the controllers to these; empty means all.
	Namespaces []string
	// Workers is the number of workers by controller; 5 where it does not say.
	Workers map[string]int
	// Election decides whether this process acts; nil means that it always does.
	Election *Election
	// BindAddress is where health and metrics are served.
	BindAddress string
	// Profiling serves /debug/pprof as well.
	Profiling bool
	Logger    *slog.Logger
}

// Election is about the Lease by which processes take turns.
type Election struct {
	Namespace, Name string
	Duration        time.Duration
}

// Select turns the words of --controllers into names: a name, "*" for all, "-name" for all but this.
func Select(words []string) ([]string, error) {
	var chosen, without []string
	for _, word := range words {
		name, minus := strings.CutPrefix(word, "-")
		switch {
		case word == "*":
			chosen = append(chosen, Names()...)
		case constructors[name] == nil:
			return nil, fmt.Errorf("there is no controller %q; there are: %s", name, strings.Join(Names(), ", "))
		case minus:
			without = append(without, name)
		default:
			chosen = append(chosen, name)
		}
	}
	chosen = slices.DeleteFunc(chosen, func(name string) bool { return slices.Contains(without, name) })
	slices.Sort(chosen)
	if chosen = slices.Compact(chosen); len(chosen) == 0 {
		return nil, fmt.Errorf("no controller is left to run; there are: %s", strings.Join(Names(), ", "))
	}
	return chosen, nil
}

// Run runs the controllers until ctx ends. It returns nil when that was the reason, after all has stopped and the lease was
// given back, and an error when something could not start or the lease was lost.
func Run(ctx context.Context, config *rest.Config, opts Options) (err error) {
	listener, err := net.Listen("tcp", opts.BindAddress)
	if err != nil {
		return fmt.Errorf("cannot serve health and metrics: %w; choose another --bind-address", err)
	}
	defer listener.Close()
	p, err := newProcess(config, opts)
	if err != nil {
		return err
	}
	defer func() {
		if !errors.Is(err, controller.ErrStillRunning) { // else another process may act soon, and this one has to be gone
			err = errors.Join(err, p.end())
		}
	}()
	stopServing := p.serve(listener)
	defer stopServing()
	if err := p.factory.Start(context.WithoutCancel(ctx)); err != nil { // end stops it, after the controllers
		return err
	}
	opts.Logger.Info("started", "controllers", opts.Controllers, "address", listener.Addr().String())
	err = p.manager.Run(ctx)
	opts.Logger.Info("stopping")
	return err
}

// process is all that runs.
type process struct {
	opts        Options
	factory     *tidings.Factory
	broadcaster record.EventBroadcaster
	manager     *controller.Manager
	elector     *controller.LeaseElector // nil without an election
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
	if err := errors.Join(p.elect(config), p.addControllers(client)); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return p, nil
}

// elect makes the manager, with an elector if there is an election. The elector has a client of its own, so that no limit and no
// other call of the process can hold up the renewal of the lease.
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

// recorder records events about what this process does.
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

// end stops what the controllers stood on.
func (p *process) end() error {
	p.broadcaster.Shutdown()
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	return p.factory.Shutdown(ctx)
}
