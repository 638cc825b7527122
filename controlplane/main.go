// Command controlplane runs a real Kubernetes API server on an embedded etcd,
// both in this one process, for tests, demos and experiments.
//
// What it is for, and what it leaves out, is in README.md beside this file.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the handlers go away, so that a second one ends a
	// process whose clean end takes too long.
	context.AfterFunc(ctx, stop)

	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane: "+err.Error())
		os.Exit(1)
	}
}
