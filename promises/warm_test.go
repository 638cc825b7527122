package promises_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/fold/file"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/store"
	"github.com/tidings/tidings/tidingstest"
	"github.com/tidings/tidings/tidingstest/recorder"
)

var podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// program is one run of a program with an informer of pods.
type program struct {
	t   *testing.T
	f   *tidings.Factory
	inf *tidings.SharedInformer[pod]
	rec recorder.Recorder[pod]
}

// startProgram starts a program with its own factory.
func startProgram(t *testing.T, server *tidingstest.Server, opts tidings.Options, scope tidings.Scope) *program {
	t.Helper()
	return (&program{t: t}).start(server, opts, scope)
}

// startAfterRestore starts a program whose objects may go back in time, since the server was restored from a backup.
func startAfterRestore(t *testing.T, server *tidingstest.Server, opts tidings.Options, scope tidings.Scope) *program {
	t.Helper()
	p := &program{t: t}
	p.rec.AllowRewrites()
	return p.start(server, opts, scope)
}

func (p *program) start(server *tidingstest.Server, opts tidings.Options, scope tidings.Scope) *program {
	t := p.t
	t.Helper()
	f, err := tidings.NewFactory(server.Config(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return p.startOf(f, scope)
}

func (p *program) startOf(f *tidings.Factory, scope tidings.Scope) *program {
	t := p.t
	t.Helper()
	var err error
	p.f = f
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
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Minute)
	defer cancel()
	if err := p.inf.WaitForSync(ctx); err != nil {
		p.t.Fatal(err)
	}
}

// stop ends the program, and checks its handler's notifications.
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
		p.t.Errorf("the store differs: %s", differ(want, got))
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
	defer cancel()
	if err := p.rec.WaitVersions(ctx, want); err != nil {
		p.t.Error(err)
	}
}

// isUnconfirmed checks a program that serves its file, before the server has confirmed that.
func (p *program) isUnconfirmed() {
	p.t.Helper()
	time.Sleep(50 * time.Millisecond)
	var syncErr *tidings.SyncError
	if err := p.inf.Fresh(); p.inf.HasSynced() || !errors.As(err, &syncErr) || p.inf.Snapshot().Len() != savedPods {
		p.t.Errorf("synced %t, %v, with %d objects from the file that nobody has confirmed", p.inf.HasSynced(), err, p.inf.Snapshot().Len())
	}
}

// differ returns how two sets of versions differ.
func differ(want, got map[object.Key]string) string {
	var lines []string
	for key := range got {
		if want[key] == "" {
			lines = append(lines, fmt.Sprintf("%v at %s should not be there", key, got[key]))
		}
	}
	for key := range want {
		if want[key] != got[key] {
			lines = append(lines, fmt.Sprintf("%v is at %q, want %s", key, got[key], want[key]))
		}
	}
	return strings.Join(lines, ", ")
}

func versionsOf(inf *tidings.SharedInformer[pod]) map[object.Key]string {
	versions := map[object.Key]string{}
	for key, o := range inf.Snapshot().All() {
		versions[key] = o.ResourceVersion
	}
	return versions
}

func (p *program) file() tidings.FileStatus { return p.inf.Status().Parts[0].File }

// fillers is the number of pods on a server that no test changes, so that the collection is not so
// small that it is listed anyway.
const fillers = 120

func fill(server *tidingstest.Server, namespaces ...string) {
	for _, ns := range namespaces {
		for i := range fillers {
			server.Create(newPod(ns, fmt.Sprint("z", i)))
		}
	}
}

// savedPods is the number of pods in the file that saved creates.
const savedPods = fillers + 3

// saved creates a server with some pods, and a directory in which a program has saved them.
func saved(t *testing.T, opts tidings.Options, scope tidings.Scope) (*tidingstest.Server, tidings.Options) {
	t.Helper()
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	for _, name := range []string{"a", "b", "c"} {
		server.Create(newPod("shop", name))
	}
	fill(server, "shop")
	opts.Files.Dir = t.TempDir()
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

// withBudgets runs a test with all objects open, and with all folded.
func withBudgets(t *testing.T, test func(t *testing.T, opts tidings.Options)) {
	for name, budget := range map[string]int64{"open": 0, "folded": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, tidings.Options{MemoryBudget: budget}) })
		})
	}
}

func TestStartWithoutList(t *testing.T) {
	withBudgets(t, func(t *testing.T, opts tidings.Options) {
		server, opts := saved(t, opts, tidings.Scope{})
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
		if st := p.file(); st.Loaded != savedPods || st.AsOf.IsZero() || st.Serving || st.Discarded != nil {
			t.Errorf("status %+v, want loaded objects that were confirmed", st)
		}
		if err := p.inf.Fresh(); err != nil {
			t.Error(err)
		}
		server.Create(newPod("shop", "later"))
		p.holds(server.Versions(podResource))
		p.stop()
	})
}

// TestQuietWatchHasCaughtUp starts when no pod has changed, so that no event will show it. If
// nothing else has changed either, the server's version does.
func TestQuietWatchHasCaughtUp(t *testing.T) {
	for name, others := range map[string]int{"nothing has changed": 0, "other objects have changed": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, opts := saved(t, tidings.Options{}, tidings.Scope{})
				for i := range others {
					server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint(i)}})
				}
				before, began := lists(server), time.Now()
				p := startProgram(t, server, opts, tidings.Scope{})
				if others > 0 {
					p.isUnconfirmed()
				}
				p.sync()
				if took := time.Since(began); took > time.Second || (took < 200*time.Millisecond) != (others == 0) || lists(server) != before {
					t.Errorf("synced after %v with %d lists, want none within a second, and silence if other objects have changed", took, lists(server)-before)
				}
				p.stop()
			})
		})
	}
}

// TestFileWithSwappedObjects starts from a file in which the objects of two records in the middle have been swapped.
func TestFileWithSwappedObjects(t *testing.T) {
	withBudgets(t, func(t *testing.T, opts tidings.Options) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		fill(server, "shop", "bar", "inn", "ale")
		opts.Files.Dir = t.TempDir()
		p := startProgram(t, server, opts, tidings.Scope{})
		p.sync()
		p.stop()
		swapObjects(t, onlyFile(t, opts.Files.Dir))
		server.Delete(server.Objects(podResource)[0])

		p = startProgram(t, server, opts, tidings.Scope{})
		index := p.inf.AddIndex("namespace", func(p pod) []string { return []string{p.Namespace} })
		p.sync()
		if st := p.file(); st.Loaded != 0 || st.Discarded == nil || !strings.Contains(st.Discarded.Error(), "another object") {
			t.Errorf("status %+v, want a file that was discarded", st)
		}
		want := server.Versions(podResource)
		p.holds(want)
		for key, version := range want {
			got, ok := p.inf.Get(key)
			if !ok || got.Name != key.Name || got.ResourceVersion != version || !slices.Contains(slices.Collect(index.All(key.Namespace)), got) {
				t.Errorf("%s is %v", key, got)
			}
		}
		p.stop()
	})
}

// swapObjects swaps two objects of a file, and keeps everything around them valid.
func swapObjects(t *testing.T, path string) {
	t.Helper()
	var header file.Header
	var records []file.Record
	err := file.ReadFile(path, file.Options{}, func(r *file.Reader) error {
		header = r.Header()
		for record, err := range r.Records() {
			if err != nil {
				return err
			}
			records = append(records, record)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	a, b := &records[len(records)/2], &records[len(records)-1]
	a.Object, b.Object = b.Object, a.Object
	err = file.WriteFile(path, header, file.Options{}, func(w *file.Writer) error {
		for _, record := range records {
			if err := w.Write(record); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestBusyWatchHasCaughtUp starts while objects change all the time: continuous events must not prolong the wait.
func TestBusyWatchHasCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, opts := saved(t, tidings.Options{}, tidings.Scope{})
		changed := newPod("shop", "b")
		began := time.Now()
		var quiet atomic.Bool
		ended := make(chan struct{})
		server.Delete(newPod("shop", "a"))
		go func() {
			defer close(ended)
			for !quiet.Load() {
				changed.Labels = map[string]string{"at": time.Now().Format("150405.000")}
				server.Update(changed)
				time.Sleep(50 * time.Millisecond)
			}
		}()
		p := startProgram(t, server, opts, tidings.Scope{})
		p.sync()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("synced after %v", took)
		}
		if _, ok := p.inf.Get(object.Key{Namespace: "shop", Name: "a"}); ok {
			t.Error("synced with an object that was deleted before")
		}
		quiet.Store(true)
		<-ended
		p.stop()
	})
}

// TestExpiredFile starts from a version that the server has forgotten: unchanged objects are not decoded again.
func TestExpiredFile(t *testing.T) {
	withBudgets(t, func(t *testing.T, opts tidings.Options) {
		server, opts := saved(t, opts, tidings.Scope{})
		server.Delete(newPod("shop", "a"))
		server.Create(newPod("shop", "d"))
		server.Compact()
		p := startProgram(t, server, opts, tidings.Scope{})
		ctx, cancel := context.WithCancel(t.Context())
		waited := make(chan error, 1)
		go func() { waited <- p.inf.WaitForVersion(ctx, tidings.All, "1000000") }()
		p.sync()
		p.holds(server.Versions(podResource))
		cancel()
		if err := <-waited; !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrRewritten) {
			t.Errorf("a wait ended with %v, although no history was rewritten", err)
		}
		st := p.inf.Status().Parts[0]
		if st.File.Loaded != savedPods || st.Reflector.Lists != 1 {
			t.Errorf("%d objects loaded and %d lists, want %d and 1", st.File.Loaded, st.Reflector.Lists, savedPods)
		}
		if st.Source.Reused != savedPods || st.Source.Objects != 1 { // with the one of the check before the watch
			t.Errorf("%d objects reused, %d decoded; want all but one and 1", st.Source.Reused, st.Source.Objects)
		}
		p.stop()
	})
}

// TestFileOfALostHistory starts a program whose file is from after the backup that the server was restored from.
func TestFileOfALostHistory(t *testing.T) {
	for name, tt := range map[string]struct {
		ahead int
		large bool
	}{
		"a server that is behind": {0, false}, "a server that has passed the file": {20, false},
		"a server with much that is behind": {0, true}, "a server with much that has passed the file": {20, true},
	} {
		t.Run(name, func(t *testing.T) {
			withBudgets(t, func(t *testing.T, opts tidings.Options) {
				server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
				for _, name := range []string{"a", "b", "c", "gone"} {
					server.Create(newPod("shop", name))
				}
				if tt.large {
					fill(server, "shop")
				}
				backup := server.Snapshot()
				server.Delete(newPod("shop", "gone"))
				server.Create(newPod("shop", "lost"))
				changed := newPod("shop", "b")
				changed.Labels = map[string]string{"x": "y"}
				server.Update(changed)
				opts.Files.Dir = t.TempDir()
				first := startProgram(t, server, opts, tidings.Scope{})
				first.sync()
				first.stop()
				server.Restore(backup)
				for i := range tt.ahead {
					changed.Labels["x"] = strings.Repeat("y", i+1)
					changed.Name = "c"
					server.Update(changed)
				}
				p := startAfterRestore(t, server, opts, tidings.Scope{})
				p.sync()
				p.holds(server.Versions(podResource))
				server.Create(newPod("shop", "after"))
				p.holds(server.Versions(podResource))
				p.stop()
			})
		})
	}
}

// kubeSystem makes a server that says which cluster it is.
func kubeSystem(server *tidingstest.Server, uid string) {
	server.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(uid)}})
}

// TestFileOfSomethingElse starts programs that cannot use what the previous one has saved.
func TestFileOfSomethingElse(t *testing.T) {
	for _, tt := range []struct {
		name   string
		opts   tidings.Options
		scope  tidings.Scope
		change func(*tidings.Options, *tidings.Scope)
		spoil  func(t *testing.T, path string)
		word   string // that tells why; empty where it is another file
		kept   bool
	}{
		{name: "another cluster", opts: tidings.Options{Files: tidings.Files{ClusterID: "one"}}, change: func(o *tidings.Options, _ *tidings.Scope) { o.Files.ClusterID = "two" }, word: "cluster"},
		{name: "another trim", change: func(_ *tidings.Options, s *tidings.Scope) { s.Trim = tidings.Trim{tidings.ManagedFields} }},
		{name: "other labels", change: func(_ *tidings.Options, s *tidings.Scope) { s.Labels = "!x" }},
		{name: "a key", change: func(o *tidings.Options, _ *tidings.Scope) { o.Files.Key = key('k') }, word: "key"},
		{name: "another key", opts: tidings.Options{Files: tidings.Files{Key: key('a')}}, change: func(o *tidings.Options, _ *tidings.Scope) { o.Files.Key = key('b') }, word: "key"},
		{name: "no key", opts: tidings.Options{Files: tidings.Files{Key: key('a')}}, change: func(o *tidings.Options, _ *tidings.Scope) { o.Files.Key = nil }, word: "key"},
		{name: "empty", spoil: func(t *testing.T, path string) { rewrite(t, path, func([]byte) []byte { return nil }) }, word: "broken"},
		{name: "cut off", spoil: func(t *testing.T, path string) { rewrite(t, path, func(b []byte) []byte { return b[:len(b)/2] }) }, word: "broken"},
		{name: "a bit flipped", spoil: func(t *testing.T, path string) {
			rewrite(t, path, func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
		}, word: "broken"},
		{name: "unreadable for now", spoil: func(t *testing.T, path string) {
			if err := errors.Join(os.Remove(path), os.Symlink(path, path)); err != nil {
				t.Fatal(err)
			}
		}, word: "symbolic links", kept: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, opts := saved(t, tt.opts, tt.scope)
				scope, before := tt.scope, lists(server)
				if tt.change != nil {
					tt.change(&opts, &scope)
				}
				if tt.spoil != nil {
					tt.spoil(t, onlyFile(t, opts.Files.Dir))
				}
				p := startProgram(t, server, opts, scope)
				p.sync()
				p.holds(server.Versions(podResource))
				if n := lists(server) - before; n != 1 {
					t.Errorf("%d lists, want one", n)
				}
				st := p.file()
				if st.Loaded != 0 || !st.AsOf.IsZero() || (st.Discarded != nil) != (tt.word != "") {
					t.Errorf("status %+v", st)
				}
				if tt.word != "" && !strings.Contains(st.Discarded.Error(), tt.word) {
					t.Errorf("the reason is %q, want a word on %q", st.Discarded, tt.word)
				}
				if left, err := os.ReadDir(opts.Files.Dir); err != nil || (len(left) > 0) != (tt.word == "" || tt.kept) {
					t.Errorf("the directory has %v, %v; want no file that cannot be used", left, err)
				}
				p.stop()
				again := startProgram(t, server, opts, scope)
				again.sync()
				if st := again.file(); st.Loaded != savedPods {
					t.Errorf("the file was not replaced: %+v", st)
				}
				again.stop()
			})
		})
	}
}

func key(b byte) []byte { return []byte(strings.Repeat(string(rune(b)), 32)) }

// onlyFile returns the path of the one file in a directory.
func onlyFile(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%s has %v, %v; want one file", dir, entries, err)
	}
	return filepath.Join(dir, entries[0].Name())
}

func rewrite(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(data), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestClusterIsAsked compares the uid of kube-system.
func TestClusterIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := tidings.Options{Files: tidings.Files{Dir: t.TempDir()}}
		run := func(uid string) (*tidingstest.Server, tidings.FileStatus) {
			server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
			kubeSystem(server, uid)
			server.Create(newPod("shop", "of-"+uid))
			p := startProgram(t, server, opts, tidings.Scope{})
			p.sync()
			p.holds(server.Versions(podResource))
			p.stop()
			return server, p.file()
		}
		run("one")
		if _, st := run("one"); st.Loaded != 1 {
			t.Errorf("the same cluster: %+v", st)
		}
		if _, st := run("two"); st.Loaded != 0 || st.Discarded == nil || !strings.Contains(st.Discarded.Error(), "cluster") {
			t.Errorf("another cluster: %+v", st)
		}
	})
}

// TestServedWhileTheServerIsDown reads saved objects, and checks that they are reported as old.
func TestServedWhileTheServerIsDown(t *testing.T) {
	withBudgets(t, func(t *testing.T, opts tidings.Options) {
		opts.Files.ClusterID = "one"
		server, opts := saved(t, opts, tidings.Scope{})
		server.Stop()
		time.Sleep(time.Hour)
		p := startProgram(t, server, opts, tidings.Scope{})
		synctest.Wait()
		time.Sleep(time.Minute)
		p.holds(server.Versions(podResource))
		st := p.inf.Status()
		if (st.Memory.Problem != "") != (opts.MemoryBudget > 0) {
			t.Errorf("with a budget of %d bytes the problem is %q", opts.MemoryBudget, st.Memory.Problem)
		}
		if st.Synced || p.inf.HasSynced() || st.Age < time.Hour || !st.Parts[0].File.Serving {
			t.Errorf("synced %t, age %v, file %+v; want objects that are an hour old", st.Synced, st.Age, st.Parts[0].File)
		}
		var syncErr *tidings.SyncError
		if err := p.inf.Fresh(); !errors.As(err, &syncErr) || !strings.Contains(syncErr.Progress, "123 objects from a file, of 1h1m") {
			t.Errorf("Fresh says %v with progress %q", err, syncErr.Progress)
		}
		server.Start()
		p.sync()
		if err := p.inf.Fresh(); err != nil {
			t.Error(err)
		}
		p.stop()
	})
}

func TestSecretsAreNotSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s"}, Data: map[string][]byte{"k": []byte("canary")}})
		run := func(opts tidings.Options) (tidings.FileStatus, error) {
			f, err := tidings.NewFactory(server.Config(), opts)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Shutdown(context.Background())
			inf, err := tidings.Informer[*corev1.Secret](f, tidings.Scope{})
			if err == nil {
				err = f.Start(t.Context())
			}
			if err == nil {
				err = inf.WaitForSync(t.Context())
			}
			if err != nil {
				return tidings.FileStatus{}, err
			}
			return inf.Status().Parts[0].File, f.Shutdown(context.Background())
		}
		opts := tidings.Options{Files: tidings.Files{Dir: t.TempDir()}}
		if st, err := run(opts); err != nil || st.Path != "" || st.Err == nil {
			t.Errorf("without a word: %+v, %v", st, err)
		}
		if entries, _ := os.ReadDir(opts.Files.Dir); len(entries) != 0 {
			t.Errorf("Secrets were saved in %v", entries)
		}
		opts.Files.Secrets = true
		if _, err := run(opts); err == nil || !strings.Contains(err.Error(), "key") {
			t.Errorf("Secrets without a key: %v", err)
		}
		opts.Files.Key = []byte("short")
		if _, err := run(opts); err == nil || !strings.Contains(err.Error(), "32") {
			t.Errorf("a short key: %v", err)
		}
		opts.Files.Key = key('k')
		for _, loaded := range []int{0, 1} {
			if st, err := run(opts); err != nil || st.Loaded != loaded {
				t.Errorf("Secrets with a key: %+v, %v", st, err)
			}
		}
		data, err := os.ReadFile(onlyFile(t, opts.Files.Dir))
		if err != nil || strings.Contains(string(data), "canary") || strings.Contains(string(data), "shop") {
			t.Errorf("the file of Secrets is readable: %v", err)
		}
	})
}

// ofScope is a source that declares its scope.
type ofScope struct {
	*cluster
	scope source.Scope
}

func (s ofScope) Scope() source.Scope { return s.scope }

// TestAloneInformersOfOtherScopes do not begin with each other's files, even if they have the same name.
func TestAloneInformersOfOtherScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("shop", "a"))
		opts := tidings.Options{Files: tidings.Files{Dir: t.TempDir(), ClusterID: "one"}, Logger: slog.New(slog.DiscardHandler)}
		scope := source.Scope{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}
		for i, tt := range []struct {
			labels string
			loaded int
		}{{"app=a", 0}, {"app=a", 1}, {"app=b", 0}, {"app=a", 1}, {"app=b", 1}} {
			scope.Labels = tt.labels
			inf, err := tidings.NewInformer[pod](ofScope{c, scope}, tidings.InformerOptions[pod]{Options: opts, Name: "pods"})
			if err == nil {
				err = inf.Start(t.Context())
			}
			if err == nil {
				err = inf.WaitForSync(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := inf.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if st := inf.Status().Parts[0].File; st.Loaded != tt.loaded {
				t.Errorf("informer %d, of %s: %+v, want %d objects of a file", i, tt.labels, st, tt.loaded)
			}
		}
	})
}

// TestTransformedObjectsNeedAVersion saves the result of a transform only with a name for it.
func TestTransformedObjectsNeedAVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("shop", "a"))
		run := func(opts tidings.Options) (st tidings.FileStatus, transformed int) {
			inf, err := tidings.NewInformer[pod](c, tidings.InformerOptions[pod]{Options: opts, Name: "pods", Transform: func(p pod) (pod, error) {
				transformed++
				p.Labels = map[string]string{"by": opts.Files.TransformVersion}
				return p, nil
			}})
			if err == nil {
				err = inf.Start(t.Context())
			}
			if err == nil {
				err = inf.WaitForSync(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			if p, ok := inf.Get(object.Key{Namespace: "shop", Name: "a"}); !ok || p.Labels["by"] != opts.Files.TransformVersion {
				t.Errorf("the store has %v", p)
			}
			if err := inf.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			return inf.Status().Parts[0].File, transformed
		}
		var log bytes.Buffer
		opts := tidings.Options{Files: tidings.Files{Dir: t.TempDir()}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		defer func() {
			if text := log.String(); !strings.Contains(text, "the objects are not saved") || !strings.Contains(text, "Options.Files.TransformVersion") {
				t.Errorf("the log does not say why nothing is saved: %s", text)
			}
		}()
		if st, _ := run(opts); st.Path != "" || st.Err == nil || !strings.Contains(st.Err.Error(), "TransformVersion") {
			t.Errorf("without a version: %+v", st)
		}
		opts.Files.TransformVersion = "v1"
		if st, _ := run(opts); st.Path != "" || st.Err == nil || !strings.Contains(st.Err.Error(), "ClusterID") {
			t.Errorf("without a cluster: %+v", st)
		}
		opts.Files.ClusterID = "one"
		if st, n := run(opts); st.Saves != 1 || n != 1 {
			t.Errorf("the first time: %+v, %d transformed", st, n)
		}
		if st, n := run(opts); st.Loaded != 1 || st.Discarded != nil {
			t.Errorf("the second time: %+v, %d transformed", st, n)
		}
		opts.Files.TransformVersion = "v2"
		if st, n := run(opts); st.Loaded != 0 || st.Discarded == nil || n != 1 {
			t.Errorf("another version: %+v, %d transformed", st, n)
		}
	})
}

// TestNamespacesOfFiles changes the namespaces from one program to the next, and while one runs.
func TestNamespacesOfFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		opts := tidings.Options{Files: tidings.Files{Dir: t.TempDir()}}
		for _, ns := range []string{"a", "b", "c"} {
			server.Create(newPod(ns, "p"))
			server.Create(newPod(ns, "q"))
		}
		in := func(namespaces ...string) map[object.Key]string {
			want := server.Versions(podResource)
			maps.DeleteFunc(want, func(key object.Key, _ string) bool {
				return !strings.Contains(strings.Join(namespaces, " "), key.Namespace)
			})
			return want
		}
		first := startProgram(t, server, opts, tidings.Scope{Namespaces: []string{"a", "b"}})
		first.sync()
		first.stop()
		server.Delete(newPod("b", "q"))
		p := startProgram(t, server, opts, tidings.Scope{Namespaces: []string{"b", "c"}})
		p.sync()
		p.holds(in("b", "c"))
		for _, part := range p.inf.Status().Parts {
			if want := map[string]int{"b": 2, "c": 0}[part.Namespace]; part.File.Loaded != want {
				t.Errorf("namespace %s began with %d objects, want %d", part.Namespace, part.File.Loaded, want)
			}
		}
		server.Create(newPod("a", "r"))
		if err := p.inf.SetNamespaces(t.Context(), "a", "c"); err != nil {
			t.Fatal(err)
		}
		p.sync()
		p.holds(in("a", "c"))
		p.stop()
	})
}

// TestKeyIsCopied: wiping the key from memory after the program has started does not change the encryption of files.
func TestKeyIsCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, opts := saved(t, tidings.Options{}, tidings.Scope{})
		for _, want := range []int{0, savedPods} {
			opts.Files.Key = key('k')
			p := startProgram(t, server, opts, tidings.Scope{})
			if want == 0 {
				clear(opts.Files.Key)
			}
			p.sync()
			server.Create(newPod("shop", fmt.Sprint("more-", want)))
			p.stop()
			if st := p.file(); st.Err != nil || (st.Loaded >= savedPods) != (want > 0) {
				t.Errorf("%+v, want %d objects", st, want)
			}
		}
	})
}

// TestUnwritableDirectory continues without files, and reports that.
func TestUnwritableDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, opts := saved(t, tidings.Options{Files: tidings.Files{Every: time.Minute}}, tidings.Scope{})
		opts.Files.Dir = onlyFile(t, opts.Files.Dir) // a file, which nobody can make files in
		p := startProgram(t, server, opts, tidings.Scope{})
		p.sync()
		time.Sleep(10 * time.Minute)
		p.holds(server.Versions(podResource))
		if st := p.file(); st.Failures < 5 || st.Err == nil || st.Saves != 0 {
			t.Errorf("status %+v, want failures", st)
		}
		if err := p.inf.Fresh(); err != nil {
			t.Error(err)
		}
		p.stop()
	})
}

// TestSavesNowAndThen saves while the program runs, if anything has changed.
func TestSavesNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{BookmarkInterval: 24 * time.Hour})
		server.Create(newPod("shop", "a"))
		opts := tidings.Options{Files: tidings.Files{Dir: t.TempDir(), Every: time.Hour}}
		p := startProgram(t, server, opts, tidings.Scope{})
		p.sync()
		time.Sleep(5 * time.Hour)
		if st := p.file(); st.Saves != 1 || st.SavedObjects != 1 || st.SavedBytes == 0 {
			t.Errorf("nothing has changed, and the status is %+v", st)
		}
		server.Create(newPod("shop", "b"))
		time.Sleep(2 * time.Hour)
		if st := p.file(); st.Saves != 2 || st.SavedObjects != 2 {
			t.Errorf("after a change the status is %+v", st)
		}
		p.stop()
		if st := p.file(); st.Saves != 2 {
			t.Errorf("nothing new at the end, and the status is %+v", st)
		}
		info, err := os.Stat(onlyFile(t, opts.Files.Dir))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	})
}
