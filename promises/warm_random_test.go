package promises_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// TestRandomStarts runs programs one after the other with the same directory, while the cluster
// changes, forgets its history and goes back in time, and the files are lost, corrupted or replaced
// by earlier ones. Every program that reports having synced has the server's state, unless the
// network was slow, and in any case has it soon.
func TestRandomStarts(t *testing.T) {
	testseed.Each(t, 4, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			r := &randomStarts{t: t, Rand: rand.New(rand.NewPCG(seed, 0)), server: tidingstest.NewServer(t, tidingstest.ServerOptions{}), dir: t.TempDir()}
			if r.large = r.IntN(2) == 0; r.large {
				fill(r.server, "a", "b", "c")
			}
			for run := range 8 {
				r.change(r.IntN(20))
				if !r.run() {
					t.Fatalf("run %d failed", run)
				}
			}
		})
	})
}

type randomStarts struct {
	t *testing.T
	*rand.Rand
	server  *tidingstest.Server
	dir     string
	old     map[string][]byte // files of an earlier run
	backup  *tidingstest.Snapshot
	writes  int
	rewrote bool
	large   bool // so that watches are resumed
}

// change writes to the cluster, and manipulates its history.
func (r *randomStarts) change(n int) {
	for range n {
		r.write()
	}
	switch r.IntN(8) {
	case 0:
		r.server.Compact()
	case 1:
		backup := r.server.Snapshot()
		r.backup = &backup
	case 2:
		if r.backup != nil && !r.large { // in a large collection a lost history cannot always be told
			r.restart()
		}
	}
}

// restart restores the server from its backup.
func (r *randomStarts) restart() {
	r.server.Restore(*r.backup)
	r.rewrote = true
	for range r.IntN(60) {
		r.write()
	}
}

func (r *randomStarts) write() {
	r.writes++
	p := newPod([]string{"a", "b", "c"}[r.IntN(3)], fmt.Sprint("p", r.IntN(8)))
	p.Labels = map[string]string{"write": fmt.Sprint(r.writes)}
	switch _, exists := r.server.Versions(podResource)[object.KeyOf(p)]; {
	case !exists:
		r.server.Create(p)
	case r.IntN(3) == 0:
		r.server.Delete(p)
	default:
		r.server.Update(p)
	}
}

// run runs a program, and checks what it has when it has synced and later.
func (r *randomStarts) run() bool {
	r.spoil()
	opts := tidings.Options{Files: tidings.Files{Dir: r.dir, Every: time.Minute}, MemoryBudget: r.Int64N(2), Seed: r.Uint64(), NoWatchList: r.IntN(2) == 0}
	scope := tidings.Scope{Namespaces: [][]string{nil, {"a"}, {"a", "b"}, {"b", "c"}}[r.IntN(4)]}
	chaos := r.IntN(4) == 0
	if chaos {
		r.server.InjectRandom(tidingstest.Any, tidingstest.Chaos{Seed: r.Uint64(), Share: 0.2})
	}
	start := startProgram
	if r.rewrote {
		start = startAfterRestore
	}
	p := start(r.t, r.server, opts, scope)
	p.sync()
	r.server.ClearFaults()
	if got, want := versionsOf(p.inf), r.want(scope); !chaos && !maps.Equal(got, want) { // what was missed may come late then
		r.t.Errorf("when it has synced: %s; file %+v", differ(want, got), p.file())
	}
	for range r.IntN(10) {
		r.write()
	}
	time.Sleep(time.Duration(r.IntN(10)) * time.Minute)
	if chaos {
		time.Sleep(21 * time.Minute) // a watch that lags behind can take 20 bookmarks, one a minute, and then has to be repeated
	}
	p.holds(r.want(scope))
	r.keep()
	p.stop()
	return !r.t.Failed()
}

// want returns what the server has in the scope.
func (r *randomStarts) want(scope tidings.Scope) map[object.Key]string {
	want := r.server.Versions(podResource)
	maps.DeleteFunc(want, func(key object.Key, _ string) bool {
		for _, ns := range scope.Namespaces {
			if ns == key.Namespace {
				return false
			}
		}
		return len(scope.Namespaces) > 0
	})
	return want
}

// keep remembers the present files, which are older than those that the program writes when it ends.
func (r *randomStarts) keep() {
	if r.IntN(2) == 0 {
		return
	}
	r.old = map[string][]byte{}
	paths, _ := filepath.Glob(filepath.Join(r.dir, "*"))
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			r.t.Fatal(err)
		}
		r.old[path] = data
	}
}

// spoil corrupts, removes or replaces files.
func (r *randomStarts) spoil() {
	paths, _ := filepath.Glob(filepath.Join(r.dir, "*"))
	switch r.IntN(6) {
	case 0:
		for path, data := range r.old { // as after a kill
			rewrite(r.t, path, func([]byte) []byte { return data })
		}
	case 1:
		for _, path := range paths {
			rewrite(r.t, path, func(b []byte) []byte { return b[:r.IntN(len(b)+1)] })
		}
	case 2:
		if len(paths) > 1 { // of another part
			data, err := os.ReadFile(paths[0])
			if err != nil {
				r.t.Fatal(err)
			}
			rewrite(r.t, paths[1], func([]byte) []byte { return data })
		}
	}
}
