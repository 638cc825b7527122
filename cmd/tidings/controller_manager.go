package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/kube"
	"github.com/tidings/tidings/cmd/tidings/internal/manager"
)

// podNamespaceFile tells a process in a pod which namespace it is in.
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

Two controllers for one resource get in each other's way. In a cluster that has a kube-controller-manager, turn off there
what is run here: --controllers='*,-replicaset,-replicationcontroller'.

It serves /healthz, /readyz and /metrics at --bind-address. On SIGTERM it ends its work in hand and gives the lease
back. When it loses the lease it exits with 1, so that it is started afresh.`,
		Example: `  # all controllers, with the kubeconfig's cluster
  tidings controller-manager

  # ReplicaSets of two namespaces, without an election
  tidings controller-manager --controllers replicaset --namespaces shop,billing --leader-elect=false`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.bind(cmd)
	return cmd
}

func (f *managerFlags) bind(cmd *cobra.Command) {
	set := cmd.Flags()
	set.SortFlags = false
	set.StringSliceVar(&f.controllers, "controllers", []string{"*"}, "controllers to run: names, * for all, -name for all but one; there are "+strings.Join(manager.Names(), ", "))
	set.StringSliceVar(&f.namespaces, "namespaces", nil, "namespaces to act in (default all)")
	set.StringToIntVar(&f.workers, "workers", nil, "workers by controller, such as replicaset=10 (default 5 each)")
	set.BoolVar(&f.elect, "leader-elect", true, "act only while holding a Lease, so that several processes can stand by")
	set.StringVar(&f.election.Namespace, "leader-elect-namespace", "", "namespace of the Lease (default the pod's, or the context's)")
	set.StringVar(&f.election.Name, "leader-elect-name", "tidings-controller-manager", "name of the Lease")
	set.DurationVar(&f.election.Duration, "leader-elect-lease-duration", 15*time.Second, "how long others wait for a leader that has gone silent; whole seconds")
	set.Float32Var(&f.qps, "qps", 0, "API requests a second, on average (0 = as many as the server takes)")
	set.IntVar(&f.burst, "burst", 0, "API requests at once (0 = twice --qps)")
	set.StringVar(&f.bindAddress, "bind-address", "127.0.0.1:9440", "where to serve /healthz, /readyz and /metrics; port 0 takes a free one")
	set.BoolVar(&f.profiling, "profiling", false, "also serve /debug/pprof")
	set.StringVar(&f.logFormat, "log-format", "text", "text or json")
	set.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	f.cluster.Bind(set)
}

func (f *managerFlags) run(cmd *cobra.Command) error {
	opts, err := f.complete(cmd.ErrOrStderr())
	if err != nil {
		return cli.Usage(err)
	}
	config, err := f.cluster.RESTConfig(opts.Logger)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = f.qps, cmp.Or(f.burst, int(2*f.qps))
	if f.qps == 0 {
		config.QPS = -1
	}
	if opts.Election != nil && opts.Election.Namespace == "" {
		if opts.Election.Namespace, err = f.ownNamespace(); err != nil {
			return err
		}
	}
	return manager.Run(cmd.Context(), config, opts)
}

// complete checks the flags and returns the options that they mean, but for what only the cluster can tell.
func (f *managerFlags) complete(stderr io.Writer) (manager.Options, error) {
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
	for name, n := range f.workers {
		if _, err := manager.Select([]string{name}); err != nil || n < 1 {
			return opts, fmt.Errorf("--workers %s=%d: want a controller's name and a number from 1 on", name, n)
		}
	}
	switch {
	case f.qps < 0 || f.burst < 0:
		return opts, errors.New("--qps and --burst must not be negative")
	case f.qps == 0 && f.burst > 0:
		return opts, errors.New("--burst without --qps limits nothing; set both")
	case f.elect && f.election.Duration < time.Second:
		return opts, fmt.Errorf("--leader-elect-lease-duration %v: want a second or more", f.election.Duration)
	}
	if _, _, err := net.SplitHostPort(f.bindAddress); err != nil {
		return opts, fmt.Errorf("--bind-address %q: want host:port, such as 127.0.0.1:9440", f.bindAddress)
	}
	return opts, nil
}

// ownNamespace is the namespace that this process is in, or the context's.
func (f *managerFlags) ownNamespace() (string, error) {
	if data, err := os.ReadFile(podNamespaceFile); err == nil {
		return strings.TrimSpace(string(data)), nil
	}
	var none kube.Namespaces
	names, err := none.List(&f.cluster)
	if err != nil {
		return "", fmt.Errorf("cannot tell where the lease shall be, set --leader-elect-namespace: %w", err)
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
