package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/tidings/tidings"
)

// Main is the main function of a program with an operator. It reads the flags below from the command line, makes an
// operator, calls setup, which adds informers and controllers to it, and runs it until the process is told to end
// (SIGTERM, or SIGINT). On an error it prints that and exits with code 1. name is the name of the program and of its
// lease.
//
//	-kubeconfig FILE       see LoadConfig
//	-address ADDRESS       where metrics and health checks are served; ":8080" if not set, "" for nowhere
//	-lease-namespace NAME  the lease's namespace; the pod's own, or "default", if not set; "" for no leader election
//	-shards N              all replicas work, each on its part of N; see Options.Shards; 0, if not set, for one leader
//
// Programs with flags of their own use New and Run.
func Main(name string, setup func(*Operator) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := runProgram(ctx, name, os.Args[1:], setup)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

func runProgram(ctx context.Context, name string, args []string, setup func(*Operator) error) error {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig `file`; without one $KUBECONFIG, ~/.kube/config, or the pod's own credentials")
	address := flags.String("address", ":8080", "`address` of metrics and health checks; empty means none")
	namespace := flags.String("lease-namespace", podNamespace(), "`namespace` of the lease; empty means no leader election")
	parts := flags.Int("shards", 0, "`number` of parts of the work that replicas share; 0 means that one replica works")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := LoadConfig(*kubeconfig)
	if err != nil {
		return err
	}
	o := Options{Address: *address, Shards: *parts}
	if *namespace != "" {
		o.Lease = tidings.Key{Namespace: *namespace, Name: name}
	}
	op, err := New(config, o)
	if err != nil {
		return err
	}
	if err := setup(op); err != nil {
		return err
	}
	return op.Run(ctx)
}

// podNamespace returns the namespace of the pod that the process runs in, or "default".
func podNamespace() string {
	data, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if name := strings.TrimSpace(string(data)); err == nil && name != "" {
		return name
	}
	return "default"
}
