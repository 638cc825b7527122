package promises_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
)

type panickingLog struct{ slog.Handler }

func (panickingLog) Handle(context.Context, slog.Record) error  { panic("no logs today") }
func (h panickingLog) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h panickingLog) Enabled(context.Context, slog.Level) bool { return true }

// TestPanickingLogHandler makes every user function panic, including those that are called to report panics.
func TestPanickingLogHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		inf := start(t, c, tidings.InformerOptions[pod]{
			Options:   tidings.Options{Logger: slog.New(panickingLog{slog.DiscardHandler}), OnError: func(error) { panic("OnError") }, OnMutation: func(tidings.Mutation) { panic("OnMutation") }},
			Transform: func(pod) (pod, error) { panic("transform") },
		})
		inf.AddIndex("bad", func(pod) []string { panic("index") })
		reg := mustAdd(t, inf, tidings.HandlerFuncs[pod]{
			Add:    func(p pod, _ bool) { p.Spec.NodeName = "mine"; panic("add") },
			Update: func(_, p pod) { panic("update") },
		}, tidings.HandlerOptions{OnSynced: func() { panic("synced") }})
		time.Sleep(time.Minute)
		c.write(newPod("a", "x"))
		c.write(newPod("a", "y"))
		synctest.Wait()
		c.fail(errors.New("down"))
		synctest.Wait()
		c.fail(nil)
		time.Sleep(time.Minute)
		c.write(newPod("a", "z"))
		synctest.Wait()
		// The list that puts right what the handler wrote brings one update more.
		if got := reg.Status(); got.Delivered != 5 || got.Panics != 6 || inf.Snapshot().Len() != 3 || !got.Synced {
			t.Errorf("%+v, %d objects", got, inf.Snapshot().Len())
		}
	})
}

// TestHandlerThatEndsItsGoroutine calls runtime.Goexit, as t.FailNow does: with one object of an
// initial list, of changes that came one by one and of merged ones, and at the end of the list. It
// gets all of them nevertheless, each once.
func TestHandlerThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log output
		c := newCluster()
		write := func(names ...string) {
			for _, name := range names {
				c.write(newPod("a", name))
			}
			synctest.Wait()
		}
		write("1", "2", "3")
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
		var got []string
		release := make(chan struct{})
		reg := mustAdd(t, inf, tidings.HandlerFuncs[pod]{Add: func(p pod, _ bool) {
			got = append(got, p.Name)
			switch p.Name {
			case "4":
				<-release
				runtime.Goexit()
			case "2", "6", "9":
				runtime.Goexit()
			}
		}}, tidings.HandlerOptions{OnSynced: runtime.Goexit, Resync: time.Hour})
		synctest.Wait()
		if err := reg.WaitForSync(t.Context()); err != nil {
			t.Error(err)
		}
		write("4")
		write("5", "6")
		write("7")
		close(release)
		synctest.Wait()
		write("8", "9")
		if want := []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"}; !slices.Equal(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
		if st := reg.Status(); st.Panics != 5 || st.Delivered != 9 || st.Pending != 0 || !strings.Contains(log.take(), "TestHandlerThatEndsItsGoroutine") {
			t.Errorf("status %+v", st)
		}
		if err := inf.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestTransformThatEndsItsGoroutine stops the informer, which says so.
func TestTransformThatEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{Transform: func(p pod) (pod, error) {
			if p.Name == "x" {
				runtime.Goexit()
			}
			return p, nil
		}})
		synctest.Wait()
		if err := inf.Fresh(); err != nil {
			t.Fatal(err)
		}
		c.write(newPod("a", "x"))
		synctest.Wait()
		if err := inf.Fresh(); !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("Fresh: %v, want ErrStopped", err)
		}
		if err := inf.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
