// Command demo shows a read replica at work, on its own control plane, and leaves nothing behind.
//
// It starts a real kube-apiserver with etcd and two replicas behind one address, reads as kubectl does, and runs an
// informer of client-go and one of Tidings while the replicas are killed, restarted and stopped. Finally it compares
// what the informers hold with what the API server lists, and counts, in the API server's audit log, the requests that
// it saw. It exits with 0 if everything is as it should be, and otherwise with 1 and the reason.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/tidings/tidings/serve/internal/launch"
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
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) (err error) {
	began := time.Now()
	out := &printer{w: w}
	out.say("This demo puts two read replicas between clients and a real API server, which is deleted afterwards.")
	out.step("Start a control plane: kube-apiserver and etcd in one process")
	out.say("   compiling; the first time this takes some minutes, and prints its progress")
	audit, err := newAuditLog()
	if err != nil {
		return err
	}
	defer audit.remove()
	plane, err := controlplane.Launch(ctx, controlplane.Options{
		UnsafeNoFsync: true, Args: audit.args(), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		err = errors.Join(err, plane.Close(ctx))
	}()
	out.say("   process %d serves %s", plane.PID(), plane.Config().Host)
	launcher, err := launch.New(ctx, plane.Kubeconfig())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, launcher.Close()) }()

	ctx, cancel := context.WithTimeout(ctx, showTime)
	defer cancel()
	if err := show(ctx, out, plane, launcher, audit); err != nil {
		return err
	}
	out.say("\nEverything worked, in %v.", time.Since(began).Round(time.Second))
	return nil
}

// show runs the demo on a running control plane.
func show(
	ctx context.Context, out *printer, plane *controlplane.ControlPlane, launcher *launch.Launcher, audit *auditLog,
) error {
	c, err := newCluster(ctx, plane.Config())
	if err != nil {
		return err
	}
	out.say("   it has %d pods, and a service account that may read them and nothing else", pods)

	out.step("Start two replicas behind one address")
	pair, err := startPair(ctx, launcher)
	if err != nil {
		return err
	}
	defer pair.close()
	first, second := pair.replicas[0].Address(), pair.replicas[1].Address()
	out.say("   %s, in front of %s and %s", pair.balancer.Address(), first, second)

	clients := launcher.Config(pair.balancer.Address(), c.token)
	out.step("Read as kubectl does")
	if err := showReads(ctx, out, clients); err != nil {
		return err
	}
	out.step("Start an informer of client-go and one of Tidings, " +
		"with the replicas' address in place of the API server's")
	watching, err := startInformers(ctx, clients)
	if err != nil {
		return err
	}
	defer watching.stop()
	out.say("   both hold %d pods", pods)

	out.step("Take the replicas away, one after the other, while pods change")
	if err := showMoves(ctx, out, c, pair, watching); err != nil {
		return err
	}
	out.step("Count what the API server saw")
	return showRequests(out, audit)
}
