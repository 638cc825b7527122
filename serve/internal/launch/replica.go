// Package launch starts replicas as processes of their own, behind one address: for the demo and the measurements.
package launch

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// Launcher starts replicas of one API server. They share a serving certificate.
type Launcher struct {
	dir, program string
	kubeconfig   string
	ca           []byte
}

// New builds tidings-serve in a temporary folder, which Close removes. The replicas use kubeconfig. The working folder
// has to be in the module of this package.
func New(ctx context.Context, kubeconfig string) (*Launcher, error) {
	dir, err := os.MkdirTemp("", "tidings-serve-")
	if err != nil {
		return nil, err
	}
	l := &Launcher{dir: dir, program: filepath.Join(dir, "tidings-serve"), kubeconfig: kubeconfig}
	if l.ca, err = writeCertificate(dir); err == nil {
		err = l.build(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Launcher) build(ctx context.Context) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", l.program,
		"github.com/tidings/tidings/serve/cmd/tidings-serve")
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building tidings-serve: %w\n%s", err, text)
	}
	return nil
}

// Close removes what was built. The replicas must have ended.
func (l *Launcher) Close() error { return os.RemoveAll(l.dir) }

// Replica is a running process.
type Replica struct {
	cmd     *exec.Cmd
	address string
	done    chan struct{} // closed when the process has exited
	err     error         // how it ended; set before done is closed

	mu   sync.Mutex // guards the fields below
	last []string   // lines of its log
}

// lastLines is how many lines of a replica's log errors show.
const lastLines = 10

var serving = regexp.MustCompile(`msg=serving address=(\S+)`)

// Start starts a replica on a free port of 127.0.0.1, and returns when it is ready.
func (l *Launcher) Start(ctx context.Context, args ...string) (*Replica, error) {
	args = append([]string{
		"--kubeconfig", l.kubeconfig, "--listen", "127.0.0.1:0",
		"--tls-cert-file", filepath.Join(l.dir, certFile), "--tls-private-key-file", filepath.Join(l.dir, keyFile),
	}, args...)
	r := &Replica{cmd: exec.Command(l.program, args...), done: make(chan struct{})}
	log, err := r.cmd.StderrPipe()
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	address := make(chan string, 1)
	go func() { // ends with the process, for which Stop and Kill wait
		defer close(r.done)
		r.read(bufio.NewScanner(log), address)
		r.err = r.cmd.Wait()
	}()
	if err := r.awaitReady(ctx, l.ca, address); err != nil {
		r.Kill()
		return nil, fmt.Errorf("tidings-serve did not start: %w\n%s", err, r.Log())
	}
	return r, nil
}

// read reads the log, and finds in it the address that the replica listens on.
func (r *Replica) read(lines *bufio.Scanner, address chan<- string) {
	for lines.Scan() {
		if found := serving.FindStringSubmatch(lines.Text()); found != nil {
			address <- found[1]
		}
		r.mu.Lock()
		r.last = append(r.last[max(0, len(r.last)-lastLines+1):], lines.Text())
		r.mu.Unlock()
	}
}

// readyInterval is how often a starting replica is asked whether it is ready.
const readyInterval = 50 * time.Millisecond

func (r *Replica) awaitReady(ctx context.Context, ca []byte, address <-chan string) error {
	select {
	case r.address = <-address:
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for !isReady(ctx, client, "https://"+r.address+"/readyz?verbose") {
		select {
		case <-tick.C:
		case <-r.done:
			return r.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func isReady(ctx context.Context, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Address returns the host and port that the replica listens on.
func (r *Replica) Address() string { return r.address }

// PID returns the process id.
func (r *Replica) PID() int { return r.cmd.Process.Pid }

// Log returns the last lines that the replica has logged.
func (r *Replica) Log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.last, "\n")
}

// Stop asks the replica to end, as SIGTERM does, and waits for that. An unclean end is an error.
func (r *Replica) Stop(ctx context.Context) error {
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has exited
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		r.Kill()
		return fmt.Errorf("tidings-serve was killed, because it did not end: %w\n%s", ctx.Err(), r.Log())
	}
}

// Kill ends the replica at once, and waits until it has exited. It may have ended before.
func (r *Replica) Kill() {
	_ = r.cmd.Process.Kill() // fails only if it has exited
	<-r.done
}

// Config returns the configuration of a client with a token, for a replica or a Balancer at an address.
func (l *Launcher) Config(address, token string) *rest.Config {
	return &rest.Config{
		Host: "https://" + address, BearerToken: token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: l.ca},
	}
}
