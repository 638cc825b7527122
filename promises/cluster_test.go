package promises_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/tidingstest"
)

// addressedAs starts a program that uses the given name for the server.
func addressedAs(t *testing.T, server *tidingstest.Server, name string, opts tidings.Options) *program {
	t.Helper()
	config := server.Config()
	config.Host = "http://" + name
	f, err := tidings.NewFactory(config, opts)
	if err != nil {
		t.Fatal(err)
	}
	return (&program{t: t}).startOf(f, tidings.Scope{})
}

// TestClusterWithoutKubeSystem: if the namespace kube-system cannot be read, saved objects belong
// to the server's address. A server with another address does not get them, even if its objects
// have the same names and versions; nor does one that can be identified by its uid.
func TestClusterWithoutKubeSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		server, opts := saved(t, tidings.Options{}, tidings.Scope{})
		opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		run := func(name string) tidings.FileStatus {
			p := addressedAs(t, server, name, opts)
			p.sync()
			p.holds(server.Versions(podResource))
			p.stop()
			return p.file()
		}
		if st := run("one.test"); st.Loaded != 0 || st.Discarded == nil || !strings.Contains(st.Discarded.Error(), "cluster") {
			t.Errorf("another address: %+v", st)
		}
		if st := run("one.test"); st.Loaded != savedPods || st.Discarded != nil {
			t.Errorf("the same address: %+v", st)
		}
		if text := log.String(); !strings.Contains(text, "kube-system cannot be read") || !strings.Contains(text, "http://one.test") || !strings.Contains(text, "the saved objects cannot be used") {
			t.Errorf("the log does not say by what the cluster is known: %s", text)
		}
		kubeSystem(server, "uid")
		if st := run("one.test"); st.Loaded != 0 || st.Discarded == nil {
			t.Errorf("a server that says which cluster it is: %+v", st)
		}
		if st := run("two.test"); st.Loaded != savedPods || st.Discarded != nil {
			t.Errorf("the same cluster under another address: %+v", st)
		}
	})
}

// TestClusterIsToldToALogThatPanics: a log handler that panics neither crashes the program nor costs it the file.
func TestClusterIsToldToALogThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, opts := saved(t, tidings.Options{}, tidings.Scope{})
		opts.Logger, opts.Files.Dir = slog.New(panickingLog{slog.DiscardHandler}), t.TempDir()
		for i, want := range []int{0, savedPods, savedPods} {
			p := addressedAs(t, server, "one.test", opts)
			p.sync()
			p.stop()
			if st := p.file(); st.Loaded != want || st.Discarded != nil || st.Err != nil {
				t.Errorf("run %d: %+v, want %d objects", i, st, want)
			}
		}
	})
}

// TestClusterIsAskedOnce: the informers of a factory share the cluster's identity.
func TestClusterIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, opts := saved(t, tidings.Options{}, tidings.Scope{Namespaces: []string{"shop", "other", "third"}})
		asked := askedForClusters(server)
		p := startProgram(t, server, opts, tidings.Scope{Namespaces: []string{"shop", "other", "third"}})
		p.sync()
		p.stop()
		if n := askedForClusters(server) - asked; n != 1 {
			t.Errorf("the server was asked %d times which cluster it is", n)
		}
	})
}

func askedForClusters(server *tidingstest.Server) (n int) {
	for _, r := range server.Requests(tidingstest.Any) {
		if r.Resource.Resource == "namespaces" {
			n++
		}
	}
	return n
}

// TestFileOutlivesAServerThatIsDown: a program that starts while the cluster cannot be identified begins with its file
// once it can.
func TestFileOutlivesAServerThatIsDown(t *testing.T) {
	for name, fault := range map[string]struct {
		off, on func(*tidingstest.Server)
		word    string // that tells what is wrong
	}{
		"refused": {(*tidingstest.Server).Stop, (*tidingstest.Server).Start, "connection refused"},
		"silent":  {(*tidingstest.Server).Partition, (*tidingstest.Server).Heal, "identify the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, opts := saved(t, tidings.Options{}, tidings.Scope{})
				before := lists(server)
				fault.off(server)
				p := startProgram(t, server, opts, tidings.Scope{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := p.inf.WaitForSync(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), fault.word) {
					t.Errorf("%v, want an error that says what is wrong", err)
				}
				if n := p.inf.Snapshot().Len(); n != 0 {
					t.Errorf("%d objects of nobody knows which cluster", n)
				}
				fault.on(server)
				p.sync()
				p.holds(server.Versions(podResource))
				if st := p.file(); st.Loaded != savedPods || st.Discarded != nil || lists(server) != before {
					t.Errorf("%+v after %d lists, want the objects of the file", st, lists(server)-before)
				}
				p.stop()
			})
		})
	}
}
