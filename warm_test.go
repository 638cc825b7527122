package tidings_test

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
	"github.com/tidings/tidings/tidingstest/recorder"
)

var podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// program is one run of a program that holds pods.
type program struct {
	t   *testing.T
	f   *tidings.Factory
	inf *tidings.SharedInformer[pod]
	rec recorder.Recorder[pod]
}

// startProgram starts a program with a factory of its own.
func startProgram(t *testing.T, server *tidingstest.Server, opts tidings.Options, scope tidings.Scope) *program {
	t.Helper()
	f, err := tidings.NewFactory(server.Config(), opts)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, f: f}
	if p.inf, err = tidings.Informer[pod](f, scope); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, p.inf, tidings.DeltaFunc[pod](p.rec.Delta), tidings.HandlerOptions{})
	if err := f.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *program) sync() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	if err := p.inf.WaitForSync(ctx); err != nil {
		p.t.Fatal(err)
	}
}

// stop ends the program, and checks what its handler was told.
func (p *program) stop() {
	p.t.Helper()
	if err := p.f.Shutdown(context.Background()); err != nil {
		p.t.Error(err)
	}
	if err := p.rec.Err(); err != nil {
		p.t.Error(err)
	}
}

// holds checks that the store and the handler have these versions.
func (p *program) holds(want map[object.Key]string) {
	p.t.Helper()
	synctest.Wait()
	if got := versionsOf(p.inf); !maps.Equal(got, want) {
		p.t.Errorf("the store has %v, want %v", got, want)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
	defer cancel()
	if err := p.rec.WaitVersions(ctx, want); err != nil {
		p.t.Error(err)
	}
}

func versionsOf(inf *tidings.SharedInformer[pod]) map[object.Key]string {
	versions := map[object.Key]string{}
	for key, o := range inf.Snapshot().All() {
		versions[key] = o.ResourceVersion
	}
	return versions
}

func (p *program) file() tidings.FileStatus { return p.inf.Status().Parts[0].File }

// saved makes a server with three pods, and a directory in which a program has saved them.
func saved(t *testing.T, opts tidings.Options, scope tidings.Scope) (*tidingstest.Server, tidings.Options) {
	t.Helper()
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	for _, name := range []string{"a", "b", "c"} {
		server.Create(newPod("shop", name))
	}
	opts.Dir = t.TempDir()
	p := startProgram(t, server, opts, scope)
	p.sync()
	p.stop()
	return server, opts
}

// lists counts the lists of whole collections: the check before a watch lists one object.
func lists(server *tidingstest.Server) (n int) {
	for _, r := range server.Requests(tidingstest.Any) {
		if r.Resource == podResource && (r.Kind == tidingstest.WatchList || r.Kind == tidingstest.List && r.Query.Get("limit") != "1") {
			n++
		}
	}
	return n
}

func TestStartWithoutList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, opts := saved(t, tidings.Options{}, tidings.Scope{})
		server.Delete(newPod("shop", "a"))
		server.Create(newPod("shop", "d"))
		changed := newPod("shop", "b")
		changed.Labels = map[string]string{"x": "y"}
		server.Update(changed)
		before := lists(server)
		p := startProgram(t, server, opts, tidings.Scope{})
		p.sync()
		p.holds(server.Versions(podResource))
		if n := lists(server) - before; n != 0 {
			t.Errorf("%d lists, want none", n)
		}
		if st := p.file(); st.Loaded != 3 || st.AsOf.IsZero() || st.Serving || st.Discarded != nil {
			t.Errorf("status %+v, want 3 loaded objects that were confirmed", st)
		}
		if err := p.inf.Fresh(); err != nil {
			t.Error(err)
		}
		server.Create(newPod("shop", "later"))
		p.holds(server.Versions(podResource))
		p.stop()
	})
}
