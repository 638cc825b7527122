// Command controlplane runs a real Kubernetes API server on an embedded etcd, both in one process, for tests,
// demos and experiments.
//
// See README.md beside this file for what it is for, and what it leaves out.
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
	// After the first signal the handlers are removed, so that a second one kills a process whose clean
	// shutdown takes too long.
	context.AfterFunc(ctx, stop)

	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane: "+err.Error())
		os.Exit(1)
	}
}
