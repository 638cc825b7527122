// Command demoshards shows replicas that share the keys of a controller, on its own control plane, and leaves nothing
// behind.
//
// It starts a real kube-apiserver with etcd, and three replicas of a program, each in a process. While objects change,
// it kills one, adds one and stops one, and prints how long changes had to wait. It exits with 0 if no object was
// reconciled by two at once and no change was left out, and otherwise with 1 and the reason.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/tidings/tidings/tidingstest/controlplane"
)

const (
	// showTime limits everything after the start.
	showTime = 3 * time.Minute
	// closeTime limits the shutdown.
	closeTime = 30 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if name := os.Getenv(replicaEnv); name != "" {
		if err := runReplica(ctx, name); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemoshards:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) (err error) {
	fmt.Fprintln(w, "Three replicas of a controller share its keys, on a real API server, which is deleted afterwards.")
	dir, err := os.MkdirTemp("", "tidings-demo-shards-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	plane, err := controlplane.Launch(ctx, controlplane.Options{Logger: log, UnsafeNoFsync: true})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		err = errors.Join(err, plane.Close(ctx))
	}()
	ctx, cancel := context.WithTimeout(ctx, showTime)
	defer cancel()
	o, err := observe(ctx, plane.Config())
	if err != nil {
		return err
	}
	defer o.close()
	r := &replicas{kubeconfig: plane.Kubeconfig(), dir: dir}
	defer r.killAll()
	phases, err := show(ctx, w, o, r)
	if err != nil {
		return err
	}
	printPhases(w, phases)
	overlaps, err := filepath.Glob(filepath.Join(dir, "overlap-*"))
	if err != nil || len(overlaps) > 0 {
		return errors.Join(err, fmt.Errorf("%d objects were reconciled by two at once", len(overlaps)))
	}
	fmt.Fprintln(w, "\nNo object was reconciled by two at once, and no change was left out.")
	return nil
}

// phase is what was measured after something happened.
type phase struct {
	what    string
	changes int
	slowest time.Duration // from a change until it was reconciled
	writes  float64       // of Leases per second
}

// show lets things happen while objects change.
func show(ctx context.Context, w io.Writer, o *observer, r *replicas) (phases []phase, err error) {
	for _, name := range []string{"first", "second", "third"} {
		if err := r.start(name); err != nil {
			return nil, err
		}
	}
	if _, err := o.change(ctx, "the replicas start", 5*time.Second); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		what string
		do   func() error
		time time.Duration
	}{
		{"nothing happens", func() error { return nil }, 10 * time.Second},
		{"the first is killed", func() error { return r.kill("first") }, 20 * time.Second},
		{"a fourth is added", func() error { return r.start("fourth") }, 8 * time.Second},
		{"the second is stopped", func() error { return r.stop("second") }, 8 * time.Second},
	} {
		fmt.Fprintf(w, "  %s, and objects change for %v\n", step.what, step.time)
		if err := step.do(); err != nil {
			return nil, err
		}
		p, err := o.change(ctx, step.what, step.time)
		if err != nil {
			return nil, err
		}
		phases = append(phases, p)
	}
	return phases, r.stopAll()
}

func printPhases(w io.Writer, phases []phase) {
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "what happens\tchanges\tslowest reconcile\twrites of Leases\t")
	for _, p := range phases {
		fmt.Fprintf(table, "%s\t%d\t%v\t%.1f/s\t\n", p.what, p.changes, p.slowest.Round(10*time.Millisecond), p.writes)
	}
	_ = table.Flush() // as for all that is printed
}
