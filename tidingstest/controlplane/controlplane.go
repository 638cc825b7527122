// Package controlplane launches a real kube-apiserver with etcd in a child process, to be killed and restarted by tests.
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

// stopPatience is how long the cleanup of Start waits for a clean end, which takes a second or two.
const stopPatience = time.Minute

// Options says how a control plane is started. The zero value is one with a temporary folder, on a
// free port, that waits for the disk as a real one does.
type Options struct {
	// DataDir keeps all that a restart needs; one control plane at a time may use it. It may already hold the
	// data of an earlier one. Empty means a temporary folder that Close removes.
	DataDir string
	// Port is the port on 127.0.0.1. 0 takes a free one, which Restart keeps.
	Port int
	// UnsafeNoFsync does not wait for the disk. Killing the process still loses nothing; a crash of the machine
	// may.
	UnsafeNoFsync bool
	// EtcdServers are the URLs of an etcd cluster to use instead of one of its own.
	EtcdServers []string
	// FeatureGates turns features of kube-apiserver on or off by name.
	FeatureGates map[string]bool
	// Args are further flags for kube-apiserver, such as "--v=2". They win over the defaults.
	Args []string
	// Logger hears of slow steps, and every ten seconds of how far the build of the program is. Nil is silent.
	Logger *slog.Logger
}

// ControlPlane is a real kube-apiserver with an etcd, running as a child process on the loopback address. There
// are no controllers, no scheduler and no nodes: what is written stays as it was written.
//
// Its methods may be called from any goroutine; Stop, Kill, Restart and Close wait for each other. The process
// ends when its parent does, however that ends; an interrupt from the terminal does not end it before.
type ControlPlane struct {
	binary    string
	options   Options
	dir       string
	temporary bool // dir was made here, and Close removes it

	// config and options.Port are set by the first start and fixed from then on.
	config *rest.Config

	mu      sync.Mutex
	process *process // nil when stopped or killed on purpose
}

// Start starts a control plane for a test and returns when it is ready. The test's cleanup stops it,
// and fails the test if it had ended by itself or does not end cleanly.
//
// The first use on a machine builds the program, which takes minutes; it is kept in the user's cache folder
// until its sources or the Go version change. TIDINGS_CONTROLPLANE can name a ready one. With -short the test is
// skipped.
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

// Launch is Start for use outside of tests. ctx bounds the build and the start, not the
// life of the control plane: Close ends that.
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

// openDir makes the data folder. The name of a temporary one is short, because the name of a socket in it must
// be.
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

// start starts the process and waits until it is ready. It holds c.mu.
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

// failure returns an error with what the process said last.
func (c *ControlPlane) failure(what string, err error) error {
	return fmt.Errorf("control plane %s: %w\n%s", what, err, c.LogTail())
}

// Config returns a new client configuration for an administrator, without a rate limit. It stays right over
// restarts.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of the administrator's kubeconfig. It refers to no other file, and stays right
// over restarts.
func (c *ControlPlane) Kubeconfig() string { return filepath.Join(c.dir, "admin.kubeconfig") }

// LogFile returns the path of the log, which goes on over restarts.
func (c *ControlPlane) LogFile() string { return filepath.Join(c.dir, "control-plane.log") }

// LogTail returns the last lines of the log, at most a few kilobytes, or says why it cannot.
func (c *ControlPlane) LogTail() string {
	tail, err := fileTail(c.LogFile(), logTailSize)
	if err != nil {
		return "no log: " + err.Error()
	}
	return tail
}

// PID returns the process id, or 0 when it was stopped or killed.
func (c *ControlPlane) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0
	}
	return c.process.pid()
}

// User returns a client configuration, without a rate limit, for a user of that name in those groups. It may do
// what RBAC rules in the cluster grant, which for a new name is hardly more than to ask for the version.
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

// Stop ends the process as SIGTERM does: it answers what it is being asked, closes etcd and exits. It waits for
// that, and kills the process when ctx ends first. The error says if that was so, if the process ended with a
// failure, or if it had ended by itself before. A control plane that is not running is no error.
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

// Kill ends the process as SIGKILL does, and waits until it is gone.
func (c *ControlPlane) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		c.process.kill()
		c.process = nil
	}
}

// Restart starts the control plane again, with the same data on the same port, and returns when it is ready. If
// it is running it is stopped first, and what Stop would complain about is returned instead of a restart. ctx
// bounds both.
func (c *ControlPlane) Restart(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.stop(ctx); err != nil {
		return err
	}
	return c.start(ctx)
}

// Close stops the control plane, and removes its folder if that is a temporary one.
func (c *ControlPlane) Close(ctx context.Context) error {
	return errors.Join(c.Stop(ctx), c.removeDir())
}
