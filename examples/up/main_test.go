package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/tidings/tidings/tidingstest"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

// interrupt is a writer that cancels the program when the output says how to stop it.
type interrupt struct {
	bytes.Buffer
	cancel context.CancelFunc
}

func (i *interrupt) Write(p []byte) (int, error) {
	defer func() {
		if strings.Contains(i.String(), "Ctrl-C") {
			i.cancel()
		}
	}()
	return i.Buffer.Write(p)
}

// TestUp starts the program twice on one folder.
func TestUp(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	tidingstest.CheckLeaks(t)
	dir := t.TempDir()
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		out := &interrupt{cancel: cancel}
		if err := run(ctx, out, controlplane.Options{DataDir: dir}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "export KUBECONFIG="+dir) || !strings.Contains(out.String(), "Stopping") {
			t.Errorf("it printed:\n%s", out.String())
		}
	}
}
