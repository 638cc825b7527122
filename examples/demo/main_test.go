package main

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/tidingstest"
)

// TestDemo runs the whole demo, which checks itself, and checks that the output does not contain the secret.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	tidingstest.CheckLeaks(t)
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, value := range []string{"reader", "correct horse", "battery staple"} {
		if strings.Contains(out.String(), value) || strings.Contains(out.String(), base64.StdEncoding.EncodeToString([]byte(value))) {
			t.Errorf("the value %q of the secret was shown:\n%s", value, out.String())
		}
	}
}

// TestMain lets this program act as the children of its tests.
func TestMain(m *testing.M) {
	switch os.Getenv("DEMO_CHILD") {
	case "":
		os.Exit(m.Run())
	case "fails":
		_, _ = os.Stdout.WriteString("first\nsecond\nunfinished")
		os.Exit(3)
	case "waits":
		_, _ = os.Stdout.WriteString("ready\n")
		select {}
	}
}

func startTestChild(t *testing.T, role string) (c *child, out *strings.Builder) {
	t.Helper()
	t.Setenv("DEMO_CHILD", role)
	out = &strings.Builder{}
	c, err := startChild(&printer{w: out}, role, asPrinted, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c, out
}

func TestChildThatFails(t *testing.T) {
	tidingstest.CheckLeaks(t)
	c, out := startTestChild(t, "fails")
	if err := c.await(t.Context(), 1, "^second$"); err != nil {
		t.Error(err)
	}
	err := c.await(t.Context(), 1, "third")
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 || !strings.Contains(err.Error(), "second") {
		t.Errorf("got %v, want the exit code and what was printed last", err)
	}
	if want := quoteMark("fails") + "first\n" + quoteMark("fails") + "second\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	if err := c.stop(t.Context()); err == nil {
		t.Error("the failure was lost")
	}
}

func TestChildThatIsSilent(t *testing.T) {
	tidingstest.CheckLeaks(t)
	c, _ := startTestChild(t, "waits")
	if err := c.await(t.Context(), 1, "ready"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := c.await(ctx, 2, "ready"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 lines") {
		t.Errorf("got %v", err)
	}
	c.kill()
	if c.err == nil {
		t.Error("a killed child ended well")
	}
}
