package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"testing"
	"time"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/bench/internal/server"
)

// patience is the timeout of one measurement.
const patience = 30 * time.Minute

// serve is the server process. It writes its address to standard output, in JSON, and ends when its
// standard input does.
func serve(config string) error {
	var c server.Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	handler, err := server.New(c)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	debug.FreeOSMemory() // what the contents were made from; collecting it must not disturb the measurements
	running, err := server.Listen(handler)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(running.Address); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return running.Close()
}

// measureOne is a measurement process. It writes the metrics to standard output.
func measureOne(ctx context.Context, spec string) error {
	var s measure.Spec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	if run := s.Test(); run != nil {
		measureAsTest(run)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	metrics, err := s.Run(ctx)
	if err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(metrics)
}

// measureAsTest measures in a test, because virtual time requires one, and ends the process. It first writes the
// metrics to standard output.
func measureAsTest(run func(*testing.T) (measure.Metrics, error)) {
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "measurement", F: func(t *testing.T) {
		metrics, err := run(t)
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(metrics)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "measure:", err)
			t.Fail()
		}
	}}}, nil, nil)
}

// startServer starts a server process and waits until it listens. The returned function stops it.
func startServer(ctx context.Context, c server.Config) (address server.Address, stop func() error, err error) {
	cmd, err := command(ctx, "serve", c)
	if err != nil {
		return address, nil, err
	}
	input, err := cmd.StdinPipe()
	if err != nil {
		return address, nil, fmt.Errorf("start a server: %w", err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return address, nil, fmt.Errorf("start a server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return address, nil, fmt.Errorf("start a server: %w", err)
	}
	stop = func() error { _ = input.Close(); return cmd.Wait() }
	if err := json.NewDecoder(output).Decode(&address); err != nil {
		return address, nil, fmt.Errorf("start a server: it ended before it listened: %w", stop())
	}
	return address, stop, nil
}

// runMeasurement runs a measurement process to completion.
func runMeasurement(ctx context.Context, spec measure.Spec, env []string) (measure.Metrics, error) {
	cmd, err := command(ctx, "measure", spec)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(os.Environ(), env...)
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run a measurement: %w", err)
	}
	var metrics measure.Metrics
	if err := json.NewDecoder(bytes.NewReader(output)).Decode(&metrics); err != nil {
		return nil, fmt.Errorf("run a measurement: %w", err)
	}
	return metrics, nil
}

// command returns a command that runs this program in another role.
func command(ctx context.Context, role string, config any) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	argument, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("pass on what to do: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, role, string(argument))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// buildProgram builds an engine's small program.
func buildProgram(ctx context.Context, e engine.Name, path string) error {
	const folder = "github.com/tidings/tidings/bench/cmd/small-"
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, folder+string(e)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the program of %s (run this in the folder bench): %w\n%s", e, err, out)
	}
	return nil
}
