package programs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tidings/tidings/tidingstest"
)

// Result is what a run of a program on an engine has come to.
type Result struct {
	Synced, Ended  Usage // when the caches were full, and when all was done
	SyncTook, Took time.Duration
	Requests       map[tidingstest.RequestKind]int
	State          []string
	SyncedRequests map[tidingstest.RequestKind]int
}

// session is one run of a program, with a server of its own.
type session struct {
	binary, dir string
	server      *tidingstest.Server
	process     *process
	began       time.Time
	result      Result
}

// kinds are the kinds of requests that are counted.
var kinds = []tidingstest.RequestKind{
	tidingstest.List, tidingstest.Watch, tidingstest.WatchList, tidingstest.Get, tidingstest.Create, tidingstest.Update,
	tidingstest.Patch, tidingstest.Delete,
}

// Run runs a program that was built to a binary. Its log is kept in dir.
func (p Program) Run(t testing.TB, binary, dir string) (result Result, err error) {
	s := &session{binary: binary, dir: dir}
	s.server = tidingstest.NewServer(t, tidingstest.ServerOptions{
		Loopback: true, TLS: true, HTTP2: true, History: 200_000,
	})
	defer s.server.Stop()
	defer func() {
		if s.process != nil {
			s.process.stop()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), runPatience)
	defer cancel()
	s.result.State, err = p.play(ctx, s)
	if err != nil {
		return s.result, fmt.Errorf("%s: %w; its log is %s", filepath.Base(binary), err, s.logFile())
	}
	s.result.Took, s.result.Requests = time.Since(s.began), s.requests()
	s.result.Ended, err = s.process.usage()
	return s.result, err
}

// runPatience is how long a run may take.
const runPatience = 10 * time.Minute

func (s *session) logFile() string { return filepath.Join(s.dir, filepath.Base(s.binary)+".log") }

func (s *session) requests() map[tidingstest.RequestKind]int {
	counts := map[tidingstest.RequestKind]int{}
	for _, kind := range kinds {
		counts[kind] = s.server.Count(kind)
	}
	return counts
}

// start starts the program.
func (s *session) start(args ...string) (err error) {
	s.began = time.Now()
	s.process, err = startProcess(s.binary, s.logFile(), args...)
	return err
}

// synced notes what the program has used until its caches were full.
func (s *session) synced() (err error) {
	s.result.SyncTook, s.result.SyncedRequests = time.Since(s.began), s.requests()
	s.result.Synced, err = s.process.usage()
	return err
}

// kubeconfig writes a kubeconfig for the server, and returns its path.
func (s *session) kubeconfig() (string, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: s.server.Config().Host, InsecureSkipTLSVerify: true}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test"}
	config.CurrentContext = "test"
	path := filepath.Join(s.dir, "kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// freePort returns a TCP port of the loopback interface that nobody uses.
func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port, listener.Close()
}

// await asks every half second whether something holds.
func (s *session) await(ctx context.Context, what string, holds func() (bool, error)) error {
	for tick := time.NewTicker(time.Second / 2); ; {
		ok, err := holds()
		if err != nil || ok {
			tick.Stop()
			return err
		}
		select {
		case <-tick.C:
		case <-s.process.ended:
			return fmt.Errorf("the program ended while %s was awaited: %w", what, s.process.err)
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, errors.Join(context.Cause(ctx), os.ErrDeadlineExceeded))
		}
	}
}
