// Package operator puts together what a controller needs in production: informers, clients whose writes are tracked,
// leader election, metrics and health checks.
//
//	op, err := operator.New(config, operator.Options{Lease: tidings.Key{Namespace: "shop", Name: "printer"}, Address: ":8080"})
//	…                       // informers of op.Factory, clients made from op.Config, controllers added to op.Manager
//	err = op.Run(ctx)
//
// It is what controller-runtime's manager is. Each part can also be used on its own.
package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/metrics"
	"github.com/tidings/tidings/shards"
)

// Options configures an Operator. The zero value runs without election and serves nothing.
type Options struct {
	// Informers are the options of the factory.
	Informers tidings.Options
	// Lease is the lease for which replicas compete. Without a name there is no election.
	Lease tidings.Key
	// Shards is the number of parts into which the keys of the controllers are divided, if all replicas are to work, each
	// on its own: some ten times as many as replicas. Zero means that one replica works. Lease then names the Lease with
	// the table of owners; see package shards.
	Shards int
	// Address is where /metrics, /healthz and /readyz are served, such as ":8080"; empty means nowhere.
	Address string
}

// Operator is a program's informers, controllers and what belongs to them. Set it up, then call Run.
type Operator struct {
	// Config is for clients: their writes in reconciles are tracked (controller.TrackWrites).
	Config *rest.Config
	// Factory makes the informers. Run starts it.
	Factory *tidings.Factory
	// Manager runs the controllers that are added to it.
	Manager *controller.Manager
	// Registry has the metrics of the informers, the controllers, the election and the process. More may be registered.
	Registry *prometheus.Registry

	address   string
	listening atomic.Value // the net.Addr that is served, for tests
}

// LoadConfig returns the config for the API server that the kubeconfig file selects, as ctrl.GetConfig does. Without
// a file name it is the one of $KUBECONFIG or ~/.kube/config, or, in a pod without these, that of the pod's service
// account.
func LoadConfig(kubeconfig string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
}

// New returns an operator for config's API server. It does not contact the server. config is not modified.
func New(config *rest.Config, o Options) (*Operator, error) {
	op := &Operator{Config: rest.CopyConfig(config), Registry: prometheus.NewRegistry(), address: o.Address}
	op.Config.Wrap(controller.TrackWrites)
	var err error
	if op.Factory, err = tidings.NewFactory(config, o.Informers); err != nil {
		return nil, err
	}
	sources := metrics.Sources{Informers: op.Factory.Status}
	if op.Manager, err = newManager(config, o, &sources); err != nil {
		return nil, err
	}
	sources.Controllers = op.Manager.Stats
	process := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	op.Registry.MustRegister(metrics.NewCollector(sources), collectors.NewGoCollector(), process)
	return op, nil
}

// newManager returns a manager with what decides which replica works, and adds its metrics to the sources.
func newManager(config *rest.Config, o Options, sources *metrics.Sources) (*controller.Manager, error) {
	switch {
	case o.Shards != 0 && o.Lease.Name == "":
		return nil, errors.New("operator: Shards needs the name of a Lease")
	case o.Shards != 0:
		replica, err := shards.New(config, o.Lease.Namespace, o.Lease.Name, o.Shards)
		if err != nil {
			return nil, err
		}
		sources.Shards = func() []shards.Stats { return []shards.Stats{replica.Stats()} }
		return controller.NewManager(replica), nil
	case o.Lease.Name != "":
		elector, err := controller.NewLeaseElector(config, o.Lease.Namespace, o.Lease.Name)
		if err != nil {
			return nil, err
		}
		sources.Elections = func() []controller.LeaseStats { return []controller.LeaseStats{elector.Stats()} }
		return controller.NewManager(elector), nil
	}
	return controller.NewManager(nil), nil
}

// Handler serves /metrics, /healthz and /readyz, as Run does at Options.Address.
func (op *Operator) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(op.Registry, promhttp.HandlerOpts{}))
	mux.Handle("/", op.Manager.Handler())
	return mux
}

// stopTimeout limits how long Run waits for informers and served requests to end.
const stopTimeout = 10 * time.Second

// Run serves, starts the informers, and runs the controllers until ctx ends or something fails; then it stops all of
// them. It returns what Manager.Run does; on an error the process should exit, so that it starts afresh. Call it
// once.
func (op *Operator) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop, err := op.serve(cancel)
	if err != nil {
		return err
	}
	err = op.Factory.Start(ctx)
	if err == nil {
		err = op.Manager.Run(ctx)
	}
	cancel()
	ending, ended := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer ended()
	return errors.Join(err, op.Factory.Shutdown(ending), stop(ending))
}

// serve serves the handler until stop is called, which returns what it failed with. If it fails before, it calls
// failed.
func (op *Operator) serve(failed func()) (stop func(context.Context) error, err error) {
	if op.address == "" {
		return func(context.Context) error { return nil }, nil
	}
	listener, err := net.Listen("tcp", op.address)
	if err != nil {
		return nil, fmt.Errorf("metrics and health: %w", err)
	}
	op.listening.Store(listener.Addr())
	server := &http.Server{Handler: op.Handler(), ReadHeaderTimeout: stopTimeout}
	ended := make(chan error, 1)
	go func() {
		err := server.Serve(listener)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		failed()
		ended <- err
	}()
	return func(ctx context.Context) error { return errors.Join(server.Shutdown(ctx), <-ended) }, nil
}
