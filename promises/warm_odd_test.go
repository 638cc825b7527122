package promises_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/tidingstest"
)

// TestObjectsOfAFileThatFitStayOpen, like those of a list, with or without handlers.
func TestObjectsOfAFileThatFitStayOpen(t *testing.T) {
	if memory.Eager {
		t.Skip("nothing stays open then, whatever fits")
	}
	told := 0
	for name, handler := range map[string]tidings.Handler[pod]{
		"none": nil, "of objects": tidings.HandlerFuncs[pod]{Add: func(pod, bool) { told++ }}, "of keys": tidings.KeyHandler[pod](func(tidings.Key) { told++ }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
				for i := range 1500 {
					server.Create(newPod("a", fmt.Sprint(i)))
				}
				opts := tidings.Options{Files: tidings.Files{Dir: t.TempDir()}, MemoryBudget: 1 << 30}
				for run := range 2 {
					told = 0
					inf := podsOf(t, server, opts)
					if handler != nil {
						mustAdd(t, inf, handler, tidings.HandlerOptions{})
					}
					if err := inf.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					if err := inf.WaitForSync(t.Context()); err != nil {
						t.Fatal(err)
					}
					loaded := inf.Status().Memory
					gc()
					for range inf.Lister().All() {
					}
					if m := inf.Status().Memory; m.Open != 1500 || m.Folded != 0 || m.Opens != loaded.Opens || m.FoldedBytes > m.OpenBytes/4 {
						t.Errorf("run %d: %+v, and before the scan %+v", run, m, loaded)
					}
					if err := inf.Stop(t.Context()); err != nil {
						t.Error(err)
					}
					if handler != nil && told != 1500 {
						t.Errorf("run %d: the handler was told %d times", run, told)
					}
				}
			})
		})
	}
}

// TestFileThatBreaksLateIsShownAsOne: while the server is away, the status shows the file as the
// origin of objects that were opened before it was found to be broken.
func TestFileThatBreaksLateIsShownAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		for i := range 3000 {
			server.Create(newPod("a", fmt.Sprint(i)))
		}
		opts := tidings.Options{Files: tidings.Files{Dir: t.TempDir(), ClusterID: "one"}, MemoryBudget: 1}
		p := startProgram(t, server, opts, tidings.Scope{})
		p.sync()
		p.stop()
		swapObjects(t, onlyFile(t, opts.Files.Dir))
		time.Sleep(time.Hour)
		server.Partition()
		p = startProgram(t, server, opts, tidings.Scope{})
		time.Sleep(10 * time.Minute)
		st := p.inf.Status()
		if file := st.Parts[0].File; st.Objects == 0 || !file.Serving || file.Discarded == nil || file.Loaded != 0 || st.Age < time.Hour || p.inf.Fresh() == nil {
			t.Errorf("%d objects of age %v, %+v", st.Objects, st.Age, file)
		}
		server.Heal()
		p.sync()
		if file := p.file(); file.Serving {
			t.Errorf("synced, and %+v", file)
		}
		p.stop()
	})
}

// TestWhatWasNotTransformedIsNotSaved: the next run would assume that it was transformed.
func TestWhatWasNotTransformedIsNotSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		for i := range 150 {
			p := newPod("a", fmt.Sprint(i))
			p.Annotations = map[string]string{"password": "canary"}
			c.write(p)
		}
		for _, fails := range []bool{true, false} {
			inf, err := tidings.NewInformer(c, tidings.InformerOptions[pod]{
				Name: "pods", Options: tidings.Options{Files: tidings.Files{Dir: t.TempDir(), ClusterID: "one", TransformVersion: "1"}},
				Transform: func(p pod) (pod, error) {
					if fails && p.Name == "5" {
						return nil, errors.New("not now")
					}
					p.Annotations = nil
					return p, nil
				},
			})
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
			if file := inf.Status().Parts[0].File; (file.Saves == 0) != fails || (file.Err != nil) != fails {
				t.Errorf("the transform fails: %t; %+v", fails, file)
			}
		}
	})
}

// TestRemovedDirectoryIsMadeAgain, even if nothing has changed.
func TestRemovedDirectoryIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(newPod("a", "p"))
		opts := tidings.Options{Files: tidings.Files{Dir: filepath.Join(t.TempDir(), "cache")}}
		inf := podsOf(t, server, opts)
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := os.RemoveAll(opts.Files.Dir); err != nil {
			t.Fatal(err)
		}
		if err := inf.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		onlyFile(t, opts.Files.Dir)
		if file := inf.Status().Parts[0].File; file.Saves != 2 {
			t.Errorf("%+v", file)
		}
	})
}

// TestOpeningsForAFileCount, also of objects that are no patches.
func TestOpeningsForAFileCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, opts := saved(t, tidings.Options{MemoryBudget: 1}, tidings.Scope{})
		inf := podsOf(t, server, opts)
		mustAdd(t, inf, tidings.HandlerFuncs[pod]{}, tidings.HandlerOptions{})
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := inf.Status(); st.Parts[0].File.Loaded < 100 || int(st.Memory.Opens) < st.Parts[0].File.Loaded {
			t.Errorf("%d objects of a file, %d opened", st.Parts[0].File.Loaded, st.Memory.Opens)
		}
		if err := inf.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestProblemOfAnInformerThatHasEnded does not affect the others.
func TestProblemOfAnInformerThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		for i := range 40 {
			server.Create(newPod("a", fmt.Sprint(i)))
			server.Create(newPod("b", fmt.Sprint(i)))
		}
		f, err := tidings.NewFactory(server.Config(), tidings.Options{MemoryBudget: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		var informers []*tidings.SharedInformer[pod]
		for _, namespace := range []string{"a", "b"} {
			inf, err := tidings.Informer[pod](f, tidings.Scope{Fields: "metadata.namespace=" + namespace})
			if err != nil {
				t.Fatal(err)
			}
			informers = append(informers, inf)
		}
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		names := func(problem string) (a, b bool) {
			return strings.Contains(problem, "namespace=a"), strings.Contains(problem, "namespace=b")
		}
		if problem := informers[0].Status().Memory.Problem; problem == "" {
			t.Fatal("there is no problem")
		} else if a, b := names(problem); !a || !b {
			t.Errorf("problem %q, want both informers", problem)
		}
		if err := informers[1].Stop(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if problem := informers[0].Status().Memory.Problem; problem != "" {
			if a, b := names(problem); !a || b {
				t.Errorf("problem %q when b has ended", problem)
			}
		}
		if err := f.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
