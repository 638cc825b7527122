package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/kube"
	"github.com/tidings/tidings/cmd/tidings/internal/manager"
)

// podNamespaceFile has the namespace of the pod in which the process runs.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// managerFlags are the flags of "tidings controller-manager".
type managerFlags struct {
	cluster     kube.Flags
	controllers []string
	namespaces  []string
	workers     map[string]int
	elect       bool
	election    manager.Election
	qps         float32
	burst       int
	bindAddress string
	profiling   bool
	logFormat   string
	logLevel    string
}

func newControllerManager() *cobra.Command {
	var f managerFlags
	cmd := &cobra.Command{
		Use:   "controller-manager",
		Short: "Run the ReplicaSet and ReplicationController controllers",
		Long: `controller-manager runs the ReplicaSet and ReplicationController controllers against a cluster.

Two controllers for one resource get in each other's way. In a cluster with a kube-controller-manager, disable its own:
--controllers='*,-replicaset-controller,-replicationcontroller-controller'.

It serves /healthz, /readyz and /metrics on --bind-address. On SIGTERM it finishes its work in progress and releases the
lease. When it loses the lease it exits with 1, so that it is restarted.`,
		Example: `  # all controllers, with the kubeconfig's cluster
  tidings controller-manager

  # ReplicaSets of two namespaces, without leader election
  tidings controller-manager --controllers replicaset \
      --namespaces shop,billing --leader-elect=false`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.bind(cmd)
	f.complete(cmd)
	return cmd
}

// complete registers the completions of flag values.
func (f *managerFlags) complete(cmd *cobra.Command) {
	complete(cmd, "controllers", fixedValues(append([]string{"*"}, manager.Names()...)...))
	complete(cmd, "namespaces", namespaceNames(&f.cluster))
	complete(cmd, "leader-elect-namespace", namespaceNames(&f.cluster))
	complete(cmd, "log-format", fixedValues("text", "json"))
	complete(cmd, "log-level", fixedValues("debug", "info", "warn", "error"))
	completeCluster(cmd, &f.cluster)
}

func (f *managerFlags) bind(cmd *cobra.Command) {
	set := cmd.Flags()
	set.SortFlags = false
	set.StringSliceVar(&f.controllers, "controllers", []string{"*"}, "controllers to run: names, * for all, -name to leave one out (*,-name: all others); available: "+strings.Join(manager.Names(), ", "))
	set.StringSliceVar(&f.namespaces, "namespaces", nil, "namespaces to act in (default all)")
	set.StringToIntVar(&f.workers, "workers", nil, "workers by controller, such as replicaset=10 (default 5 each)")
	set.BoolVar(&f.elect, "leader-elect", true, "act only while holding a Lease, so that several replicas can stand by")
	set.StringVar(&f.election.Namespace, "leader-elect-namespace", "", "namespace of the Lease (default the pod's, or the context's)")
	set.StringVar(&f.election.Name, "leader-elect-name", "tidings-controller-manager", "name of the Lease")
	set.DurationVar(&f.election.Duration, "leader-elect-lease-duration", 15*time.Second, "how long others wait for a leader that has stopped renewing; whole seconds")
	set.Float32Var(&f.qps, "qps", 0, "API requests per second, on average (0 = no limit)")
	set.IntVar(&f.burst, "burst", 0, "burst of API requests (0 = twice --qps)")
	set.StringVar(&f.bindAddress, "bind-address", "127.0.0.1:9440", "address on which to serve /healthz, /readyz and /metrics; port 0 picks a free one")
	set.BoolVar(&f.profiling, "profiling", false, "also serve /debug/pprof")
	set.StringVar(&f.logFormat, "log-format", "text", "text or json")
	set.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	f.cluster.Bind(set)
}

func (f *managerFlags) run(cmd *cobra.Command) error {
	opts, err := f.options(cmd.ErrOrStderr())
	if err != nil {
		return cli.Usage(err)
	}
	config, err := f.cluster.RESTConfig(opts.Logger)
	if err != nil {
		return err
	}
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	config.QPS, config.Burst = f.limits()
	if opts.Election != nil && opts.Election.Namespace == "" {
		if opts.Election.Namespace, err = f.ownNamespace(); err != nil {
			return err
		}
	}
	return manager.Run(cmd.Context(), config, opts)
}

// options validates the flags and returns the options, except those that depend on the cluster.
func (f *managerFlags) options(stderr io.Writer) (manager.Options, error) {
	opts := manager.Options{Namespaces: f.namespaces, Workers: f.workers, BindAddress: f.bindAddress, Profiling: f.profiling}
	if f.elect {
		opts.Election = &f.election
	}
	var err error
	if opts.Controllers, err = manager.Select(f.controllers); err != nil {
		return opts, fmt.Errorf("--controllers: %w", err)
	}
	if opts.Logger, err = newLogger(stderr, f.logFormat, f.logLevel); err != nil {
		return opts, err
	}
	return opts, errors.Join(f.checkWorkers(), f.checkLimits(), f.checkElection(), f.checkAddresses(), f.cluster.CheckFlags())
}

func (f *managerFlags) checkWorkers() error {
	for name, n := range f.workers {
		if !slices.Contains(manager.Names(), name) || n < 1 {
			return fmt.Errorf("--workers %s=%d: want a controller's name and a number of at least 1", name, n)
		}
	}
	return nil
}

func (f *managerFlags) checkLimits() error {
	switch {
	case math.IsNaN(float64(f.qps)) || math.IsInf(float64(f.qps), 0):
		return fmt.Errorf("--qps %v: want a number", f.qps)
	case f.qps == 0 && f.burst > 0:
		return errors.New("--burst without --qps limits nothing; set both")
	default:
		return cmp.Or(notNegative("qps", f.qps), notNegative("burst", f.burst))
	}
}

// limits returns the limits for a rest.Config, where -1 means no limit and a burst must be at least 1.
func (f *managerFlags) limits() (qps float32, burst int) {
	if f.qps == 0 {
		return -1, 0
	}
	return f.qps, cmp.Or(f.burst, int(min(max(1, 2*float64(f.qps)), math.MaxInt32)))
}

func (f *managerFlags) checkElection() error {
	if !f.elect {
		return nil
	}
	if d := f.election.Duration; d < time.Second || d%time.Second != 0 {
		return fmt.Errorf("--leader-elect-lease-duration %v: want whole seconds, at least one", d)
	} else if d > math.MaxInt32*time.Second {
		return fmt.Errorf("--leader-elect-lease-duration %v: want at most %v, as a Lease holds no more", d, math.MaxInt32*time.Second)
	}
	if reasons := validation.IsDNS1123Subdomain(f.election.Name); len(reasons) > 0 {
		return fmt.Errorf("--leader-elect-name: %q is not a valid Lease name: %s", f.election.Name, reasons[0])
	}
	if ns := f.election.Namespace; ns != "" {
		return checkNamespace("--leader-elect-namespace", ns)
	}
	return nil
}

// checkAddresses validates where the controllers act and where their state is served.
func (f *managerFlags) checkAddresses() error {
	if f.namespaces != nil && len(f.namespaces) == 0 {
		return errors.New(`--namespaces "": name one or more, or leave the flag out to act in all`) // such as the value of a variable that is not set
	}
	for _, ns := range f.namespaces {
		if err := checkNamespace("--namespaces", ns); err != nil {
			return err
		}
	}
	_, port, err := net.SplitHostPort(f.bindAddress)
	if err != nil {
		return fmt.Errorf("--bind-address %q: want host:port, such as 127.0.0.1:9440", f.bindAddress)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("--bind-address %q: there is no port %q; want one from 1 to 65535, or 0 for a free one", f.bindAddress, port)
	}
	return nil
}

func checkNamespace(flag, name string) error {
	if reasons := validation.IsDNS1123Label(name); len(reasons) > 0 {
		return fmt.Errorf("%s: %q is not a valid namespace: %s", flag, name, reasons[0])
	}
	return nil
}

// ownNamespace returns the namespace in which this process runs, or that of the context.
func (f *managerFlags) ownNamespace() (string, error) {
	if data, err := os.ReadFile(podNamespaceFile); err == nil {
		return strings.TrimSpace(string(data)), nil
	}
	var none kube.Namespaces
	names, err := none.List(&f.cluster)
	if err != nil {
		return "", fmt.Errorf("cannot determine the namespace of the Lease, set --leader-elect-namespace: %w", err)
	}
	return names[0], nil
}

func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var opts slog.HandlerOptions
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	opts.Level = l
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, &opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &opts)), nil
	default:
		return nil, fmt.Errorf("--log-format %q: want text or json", format)
	}
}
