package promises_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
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

// TestLostNotificationsAreReported runs two handlers side by side. One panics or ends its goroutine now and then: what it
// has handled, together with what OnError hears that it has lost, is what the other one was told.
func TestLostNotificationsAreReported(t *testing.T) {
	testseed.Each(t, 30, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			c := newCluster()
			lost := map[string][]string{} // by handler
			inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{
				Logger: slog.New(slog.DiscardHandler),
				OnError: func(err error) {
					if e, ok := errors.AsType[*tidings.PanicError](err); ok {
						lost[e.Function] = append(lost[e.Function], fmt.Sprint(e.Delta, " ", e.Key))
					}
				},
			}})
			sometimes := rand.New(rand.NewPCG(seed, 1)) // of the handler's goroutine
			fail := func() {
				switch sometimes.IntN(6) {
				case 0:
					panic("handler")
				case 1:
					runtime.Goexit()
				}
			}
			var good, handled []string
			record := func(list *[]string, before func()) tidings.Handler[pod] {
				return tidings.DeltaFunc[pod](func(d tidings.Delta[pod]) {
					before()
					*list = append(*list, fmt.Sprint(d.Type, " ", d.Key))
				})
			}
			policy := tidings.Policy(random.IntN(3))
			mustAdd(t, inf, record(&good, func() {}), tidings.HandlerOptions{Policy: policy})
			bad := mustAdd(t, inf, record(&handled, fail), tidings.HandlerOptions{Name: "bad", Policy: policy, OnSynced: func() { panic("synced") }})
			synctest.Wait()
			for range 60 {
				key := object.Key{Namespace: "a", Name: strconv.Itoa(random.IntN(4))}
				switch random.IntN(8) {
				case 0, 1:
					c.remove(key)
				case 2: // while the watch is down
					c.fail(errors.New("down"))
					c.remove(key)
					c.forget()
					time.Sleep(time.Second)
					c.fail(nil)
					time.Sleep(time.Minute)
				default:
					c.write(newPod(key.Namespace, key.Name))
				}
				synctest.Wait()
			}
			losses := lost[`handler "bad"`]
			if len(lost) != 1 || uint64(len(losses)) != bad.Status().Panics || len(losses) < 5 {
				t.Errorf("%d panics, and %v", bad.Status().Panics, lost)
			}
			all := slices.Concat(handled, slices.DeleteFunc(losses, func(s string) bool { return s == fmt.Sprint(object.DeltaType(0), " ", object.Key{}) }))
			slices.Sort(all)
			slices.Sort(good)
			if !slices.Equal(all, good) {
				t.Errorf("handled %v\nlost %v\nthe other handler was told %v", handled, losses, good)
			}
		})
	})
}

// TestWhatAPanicErrorSays of handlers, filters, OnSynced and indexes.
func TestWhatAPanicErrorSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		cause := errors.New("cause")
		var got []*tidings.PanicError
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{Logger: slog.New(slog.DiscardHandler), OnError: func(err error) {
			if e, ok := errors.AsType[*tidings.PanicError](err); ok {
				got = append(got, e)
			}
		}}})
		synctest.Wait()
		inf.AddIndex("bad", func(pod) []string { panic("index") })
		for _, h := range []struct {
			handler tidings.Handler[pod]
			opts    tidings.HandlerOptions
		}{
			{tidings.HandlerFuncs[pod]{}, tidings.HandlerOptions{Name: "synced", OnSynced: func() { panic(cause) }}},
			{tidings.FilterHandler(func(pod) bool { panic("filter") }, tidings.Handler[pod](tidings.HandlerFuncs[pod]{})), tidings.HandlerOptions{Name: "filter"}},
			{tidings.HandlerFuncs[pod]{Delete: func(tidings.Tombstone[pod]) { runtime.Goexit() }}, tidings.HandlerOptions{Name: "delete"}},
		} {
			mustAdd(t, inf, h.handler, h.opts)
			synctest.Wait()
		}
		c.remove(object.Key{Namespace: "a", Name: "x"})
		synctest.Wait()
		want := []string{
			`pods: index "bad" of a/x panicked: index`,
			`pods: handler "synced" panicked: cause`,
			`pods: handler "filter" lost the notification Added a/x: it panicked: filter`,
			`pods: handler "delete" lost the notification Deleted a/x: it called runtime.Goexit`,
		}
		if len(got) != len(want) {
			t.Fatalf("%v", got)
		}
		for i, e := range got {
			if e.Error() != want[i] {
				t.Errorf("%q, want %q", e, want[i])
			}
		}
		if !errors.Is(got[1], cause) || errors.Is(got[0], cause) || !strings.Contains(string(got[2].Stack), "TestWhatAPanicErrorSays") {
			t.Errorf("causes %v and %v, stack %s", errors.Unwrap(got[0]), errors.Unwrap(got[1]), got[2].Stack)
		}
	})
}
