package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/bench/internal/server"
)

// patience is how long one measurement may take.
const patience = 10 * time.Minute

// serve is a server's process. It tells its address on standard output and ends with its standard input.
func serve(config string) error {
	var c server.Config
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	handler, err := server.New(c)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return http.Serve(listener, handler)
}

// measureOne is a measurement's process. It writes the metrics to standard output.
func measureOne(ctx context.Context, spec string) error {
	var s measure.Spec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	metrics, err := s.Run(ctx)
	if err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(metrics)
}

// startServer starts a server's process and waits until it listens. The function it returns ends the process.
func startServer(ctx context.Context, c server.Config) (host string, stop func() error, err error) {
	cmd, err := command(ctx, "serve", c)
	if err != nil {
		return "", nil, err
	}
	input, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, fmt.Errorf("start a server: %w", err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, fmt.Errorf("start a server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start a server: %w", err)
	}
	stop = func() error { _ = input.Close(); return cmd.Wait() }
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return "", nil, fmt.Errorf("start a server: it ended before it listened: %w", stop())
	}
	return "http://" + strings.TrimSpace(address), stop, nil
}

// runMeasurement runs a measurement's process to its end.
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
	if err := json.Unmarshal(output, &metrics); err != nil {
		return nil, fmt.Errorf("run a measurement: %w", err)
	}
	return metrics, nil
}

// command is this program again, in another role.
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
