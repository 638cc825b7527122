package tidings_test

import (
	"context"
	"errors"
	"log/slog"
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
		if got := reg.Status(); got.Delivered != 4 || got.Panics != 5 || inf.Snapshot().Len() != 3 || !got.Synced {
			t.Errorf("%+v, %d objects", got, inf.Snapshot().Len())
		}
	})
}
