// Package controlplane launches a real kube-apiserver with etcd in a child process, which tests can kill and restart.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// stopPatience is how long the cleanup of Start waits for a clean shutdown, which takes a second or two.
const stopPatience = time.Minute

// Options configures a control plane. The zero value uses a temporary folder and a free port, and syncs to disk as a
// real control plane does.
type Options struct {
	// DataDir holds everything that survives a restart. Only one control plane at a time may use it. It may hold the
	// data of an earlier one. Empty means a temporary folder, which Close removes.
	DataDir string
	// Port is the port on 127.0.0.1. 0 picks a free one, which Restart keeps.
	Port int
	// UnsafeNoFsync disables fsync. Killing the process still loses nothing, but a crash of the machine may.
	UnsafeNoFsync bool
	// EtcdServers are the URLs of an external etcd cluster to use instead of an own etcd.
	EtcdServers []string
	// FeatureGates turns features of kube-apiserver on or off, by name.
	FeatureGates map[string]bool
	// Args are additional flags for kube-apiserver, such as "--v=2". They override the defaults.
	Args []string
	// Logger receives messages about slow steps and, every ten seconds, the progress of the build. Nil is silent.
	Logger *slog.Logger
}

// ControlPlane is a real kube-apiserver with etcd, running as a child process on the loopback address. There are no
// controllers, no scheduler and no nodes: objects stay as they were written.
//
// Its methods may be called from any goroutine; Stop, Kill, Restart and Close wait for each other.
// The process ends when its parent does, in whatever way that ends. An interrupt from the terminal
// does not end it.
type ControlPlane struct {
	binary    string
	options   Options
	dir       string
	temporary bool // whether dir is a temporary folder, which Close removes

	// config and options.Port are set by the first start and do not change afterwards.
	config *rest.Config

	mu      sync.Mutex
	process *process // nil if stopped or killed on purpose
}

// Start starts a control plane for a test and returns when it is ready. The test's cleanup stops it, and fails the test
// if it exited on its own or does not shut down cleanly.
//
// The first use on a machine builds the binary, which takes minutes. It is kept in the user's cache folder until its
// sources or the Go version change. TIDINGS_CONTROLPLANE can name a prebuilt one. With -short, the test is skipped.
func Start(t testing.TB, options Options) *ControlPlane {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane, which -short does without")
	}
	c, err := Launch(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopPatience)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Launch is like Start, but for use outside of tests. ctx limits the build and the start, not the lifetime of the
// control plane, which ends with Close.
func Launch(ctx context.Context, options Options) (*ControlPlane, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	binary, err := controlPlaneBinary(ctx, options.Logger)
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	c := &ControlPlane{binary: binary, options: options, dir: options.DataDir}
	if err := c.openDir(); err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	if err := c.firstStart(ctx); err != nil {
		c.Kill()
		return nil, errors.Join(err, c.removeDir())
	}
	return c, nil
}

// openDir creates the data folder. The name of a temporary one is short, because a socket path in it must be.
func (c *ControlPlane) openDir() (err error) {
	if c.dir == "" {
		c.temporary = true
		c.dir, err = os.MkdirTemp("", "tidings-")
		return err
	}
	if c.dir, err = filepath.Abs(c.dir); err != nil {
		return err
	}
	return os.MkdirAll(c.dir, 0o700)
}

func (c *ControlPlane) removeDir() error {
	if !c.temporary {
		return nil
	}
	return os.RemoveAll(c.dir)
}

func (c *ControlPlane) firstStart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.start(ctx); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	if c.options.Port, err = strconv.Atoi(server.Port()); err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	config.QPS = -1
	c.config = config
	return nil
}

// start starts the process and waits until it is ready. The caller holds c.mu.
func (c *ControlPlane) start(ctx context.Context) error {
	process, err := startProcess(c.binary, c.args(), c.LogFile())
	if err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	if err := process.waitReady(ctx); err != nil {
		process.kill()
		return c.failure("did not start", err)
	}
	c.process = process
	return nil
}

func (c *ControlPlane) args() []string {
	args := []string{"--data-dir", c.dir, "--port", strconv.Itoa(c.options.Port), "--exit-with-stdin"}
	if c.options.UnsafeNoFsync {
		args = append(args, "--unsafe-no-fsync")
	}
	if len(c.options.EtcdServers) > 0 {
		args = append(args, "--etcd-servers", strings.Join(c.options.EtcdServers, ","))
	}
	if len(c.options.FeatureGates) > 0 {
		args = append(args, "--feature-gates", gates(c.options.FeatureGates))
	}
	return append(append(args, "--"), c.options.Args...)
}

func gates(features map[string]bool) string {
	var pairs []string
	for name, on := range features {
		pairs = append(pairs, name+"="+strconv.FormatBool(on))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// failure returns an error with the end of the process's log.
func (c *ControlPlane) failure(what string, err error) error {
	return fmt.Errorf("control plane %s: %w\n%s", what, err, c.LogTail())
}

// Config returns a new client configuration for an administrator, without a rate limit. It remains valid across
// restarts.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of the administrator's kubeconfig. It is self-contained, and remains valid across
// restarts.
func (c *ControlPlane) Kubeconfig() string { return filepath.Join(c.dir, "admin.kubeconfig") }

// LogFile returns the path of the log, to which restarts append.
func (c *ControlPlane) LogFile() string { return filepath.Join(c.dir, "control-plane.log") }

// LogTail returns the last lines of the log, at most a few kilobytes, or the reason why it cannot.
func (c *ControlPlane) LogTail() string {
	tail, err := fileTail(c.LogFile(), logTailSize)
	if err != nil {
		return "no log: " + err.Error()
	}
	return tail
}

// PID returns the process id, or 0 if the process was stopped or killed.
func (c *ControlPlane) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0
	}
	return c.process.pid()
}

// User returns a client configuration, without a rate limit, for a user with that name and groups. The user has the
// permissions that RBAC rules in the cluster grant, which for a new name is little more than reading the version.
func (c *ControlPlane) User(name string, groups ...string) (*rest.Config, error) {
	kubeconfig, err := mintUser(c.binary, c.dir, name, groups)
	if err != nil {
		return nil, fmt.Errorf("control plane: user %q: %w", name, err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("control plane: user %q: %w", name, err)
	}
	config.QPS = -1
	return config, nil
}

// Stop ends the process as SIGTERM does: it finishes pending requests, closes etcd and exits. Stop waits for that, and
// kills the process if ctx ends first. It returns an error if it had to kill the process, if the process exited with a
// failure, or if it had already exited on its own. Stopping a control plane that is not running is not an error.
func (c *ControlPlane) Stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stop(ctx)
}

func (c *ControlPlane) stop(ctx context.Context) error {
	process := c.process
	if process == nil {
		return nil
	}
	c.process = nil
	if process.ended() {
		return c.failure("ended by itself", process.exit())
	}
	if err := process.stop(ctx); err != nil {
		return c.failure("did not end cleanly", err)
	}
	return nil
}

// Kill ends the process as SIGKILL does, and waits until it has exited.
func (c *ControlPlane) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		c.process.kill()
		c.process = nil
	}
}

// Restart starts the control plane again, with the same data on the same port, and returns when it is ready. If it is
// running, it is stopped first; if that fails, Restart returns the error and does not start it again. ctx limits both.
func (c *ControlPlane) Restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.stop(ctx); err != nil {
		return err
	}
	return c.start(ctx)
}

// Close stops the control plane, and removes its folder if that is temporary.
func (c *ControlPlane) Close(ctx context.Context) error {
	return errors.Join(c.Stop(ctx), c.removeDir())
}
