package main

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/tidings/tidings/tidingstest"
)

// TestMain lets this program act as a replica.
func TestMain(m *testing.M) {
	if name := os.Getenv(replicaEnv); name != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := runReplica(ctx, name); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestDemo runs the whole demo, which checks itself.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	tidingstest.CheckLeaks(t)
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, row := range []string{"nothing happens", "the first is killed", "a fourth is added", "the second is stopped"} {
		if strings.Count(out.String(), row) != 2 {
			t.Errorf("%q is not in the table:\n%s", row, out.String())
		}
	}
}
