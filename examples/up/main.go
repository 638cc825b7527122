// Command up runs a control plane, a real kube-apiserver with etcd, and prints how to use it. It runs until Ctrl-C,
// and keeps its data for the next time.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tidings/tidings/tidingstest/controlplane"
)

// closeTime limits the shutdown, which takes a second or two.
const closeTime = 30 * time.Second

func main() {
	dir := flag.String("data-dir", filepath.Join(".cache", "up"), "folder that keeps the cluster's contents")
	port := flag.Int("port", 0, "port on 127.0.0.1 (0 = a free one)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	options := controlplane.Options{DataDir: *dir, Port: *port, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if err := run(ctx, os.Stdout, options); err != nil {
		fmt.Fprintln(os.Stderr, "up:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, options controlplane.Options) error {
	fmt.Fprintln(out, "Starting a control plane ...")
	plane, err := controlplane.Launch(ctx, options)
	if err != nil {
		if ctx.Err() != nil {
			return nil // Ctrl-C during the start
		}
		return err
	}
	_, noKubectl := exec.LookPath("kubectl")
	explain(out, plane, noKubectl == nil)
	<-ctx.Done()
	fmt.Fprintln(out, "\nStopping ...")
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return plane.Close(ending)
}

// explain prints how to use the control plane.
func explain(out io.Writer, plane *controlplane.ControlPlane, kubectl bool) {
	fmt.Fprintf(out, `
The API server is ready on %s (process %d, log in %s).
In another terminal:

  export KUBECONFIG=%s
  make bin/tidings
  bin/tidings tail configmaps,pods,replicasets -A     # shows changes
  bin/tidings controller-manager                      # creates pods for ReplicaSets
`, plane.Config().Host, plane.PID(), plane.LogFile(), plane.Kubeconfig())
	if kubectl {
		fmt.Fprint(out, `  kubectl create configmap settings --from-literal=color=green
  kubectl patch configmap settings -p '{"data":{"color":"blue"}}'
  kubectl delete configmap settings
`)
	} else {
		fmt.Fprintln(out, "\nkubectl is not installed here; with it, try: kubectl create configmap settings --from-literal=color=green")
	}
	fmt.Fprintln(out, `
There is no scheduler and no kubelet, so pods stay Pending; see controlplane/README.md. Press Ctrl-C to stop.`)
}
