// Command demo shows what Tidings does, on its own control plane, and leaves nothing behind.
//
// It starts a real kube-apiserver with etcd, follows it with "tidings tail" while objects are created, changed and
// deleted, runs two controller managers and kills the leader, and finally compares the caches of informers that
// have been watching all along with what the server lists. It exits with 0 if everything is as it should be, and
// otherwise with 1 and the reason.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/tidings/tidings/tidingstest/controlplane"
)

const (
	// showTime limits everything after the start, which takes half a minute.
	showTime = 3 * time.Minute
	// closeTime limits the shutdown.
	closeTime = 30 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted; everything that was started has been stopped, and what has been compiled is kept for the next run")
		}
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) (err error) {
	began := time.Now()
	out := &printer{w: w}
	out.say("This demo shows Tidings on a real API server, which is deleted afterwards.")

	out.step("Start a control plane: kube-apiserver and etcd in one process")
	out.say("   compiling; the first time this takes some minutes, and prints its progress")
	program, remove, err := buildTidings(ctx)
	if err != nil {
		return err
	}
	defer remove()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	started := time.Now()
	plane, err := controlplane.Launch(ctx, controlplane.Options{Logger: log})
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		err = errors.Join(err, plane.Close(ctx))
	}()
	out.say("   process %d serves %s, ready after %v", plane.PID(), plane.Config().Host, time.Since(started).Round(100*time.Millisecond))

	ctx, cancel := context.WithTimeout(ctx, showTime)
	defer cancel()
	if err := show(ctx, out, program, plane); err != nil {
		return err
	}
	out.say("\nEverything worked, in %v. To try it yourself: make up", time.Since(began).Round(time.Second))
	return nil
}

// show runs the demo on a running control plane.
func show(ctx context.Context, out *printer, program string, plane *controlplane.ControlPlane) error {
	c, err := newCluster(plane.Config())
	if err != nil {
		return err
	}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	mirrors, closeMirrors, err := c.watch(ctx)
	if err != nil {
		return err
	}
	defer closeMirrors()

	out.step("Follow changes")
	tail, err := startTail(ctx, out, program, plane.Kubeconfig())
	if err != nil {
		return err
	}
	defer tail.kill()
	if err := showChanges(ctx, out, c, tail); err != nil {
		return err
	}
	managers := &managers{out: out, program: program, kubeconfig: plane.Kubeconfig()}
	defer managers.kill()
	if err := showControllers(ctx, out, c, tail, managers); err != nil {
		return err
	}
	if err := managers.stop(ctx); err != nil {
		return err
	}
	out.step("Compare the caches with the server")
	if err := c.compare(ctx, out, mirrors); err != nil {
		return err
	}
	if err := tail.stop(ctx); err != nil {
		return err
	}
	return showTimeline(ctx, out, program)
}

// buildTidings builds the command in a temporary folder, which remove deletes.
func buildTidings(ctx context.Context) (path string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "tidings-demo-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) } // leftovers in a temporary folder do no harm
	path = filepath.Join(dir, "tidings")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/tidings/tidings").Output()
	if err != nil {
		remove()
		return "", nil, fmt.Errorf("finding the command line: %w", err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "cmd", "tidings") // a module of its own
	build := exec.CommandContext(ctx, "go", "build", "-C", source, "-o", path, ".")
	if text, err := build.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("building the command line: %w\n%s", err, text)
	}
	return path, remove, nil
}
