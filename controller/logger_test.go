package controller

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/object"
)

// panickingLog is a log handler that panics.
type panickingLog struct{}

func (panickingLog) Enabled(context.Context, slog.Level) bool  { return true }
func (panickingLog) Handle(context.Context, slog.Record) error { panic("no logs today") }
func (h panickingLog) WithAttrs([]slog.Attr) slog.Handler      { return h }
func (h panickingLog) WithGroup(string) slog.Handler           { return h }

// TestPanickingLogHandler: whatever there is to log about it, an object's key is mapped and reconciled in the end.
func TestPanickingLogHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mapped, reconciled := 0, 0
		server := newServer()
		cache := newPodCache(server)
		c := New("test", func(context.Context, object.Key) (Result, error) {
			if reconciled++; reconciled < 3 {
				return Result{}, errBroken
			}
			return Result{}, Terminal(errBroken)
		}, Options{Logger: slog.New(panickingLog{})})
		err := Watch(c, cache, func(p *corev1.Pod, enqueue func(object.Key)) {
			if mapped++; mapped < 3 {
				panic(errBroken)
			}
			enqueue(object.KeyOf(p))
		})
		if err != nil {
			t.Fatal(err)
		}
		stop := running(t, c)
		synctest.Wait()
		server.put(pod("a", ""))
		cache.advance(-1)
		time.Sleep(time.Minute)
		if st := c.Stats(); st.MapperPanics != 2 || st.Errors != 2 || st.TerminalErrors != 1 || st.ActiveWorkers != 0 {
			t.Errorf("%+v", st)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestLeaderWithAPanickingLogHandler loses its lease, and says so.
func TestLeaderWithAPanickingLogHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newCandidate(&leaseServer{}, "a")
		client, nothing := &strangeClient{LeaseClient: a.client}, func() {}
		a.elector.Client, a.elector.Logger = client, slog.New(panickingLog{})
		a.start()
		time.Sleep(time.Minute)
		client.strange.Store(&nothing)
		if err := <-a.done; !errors.Is(err, ErrLeaseLost) {
			t.Error(err)
		}
	})
}

// TestLoggerHandsOnWhatItGets to the user's handler, which says what is logged.
func TestLoggerHandsOnWhatItGets(t *testing.T) {
	var log logText
	logger := newLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	logger.Debug("quiet")
	logger.With("a", 1).WithGroup("g").Info("told", "b", 2)
	if got, want := log.String(), "level=INFO msg=told a=1 g.b=2\n"; got != want {
		t.Errorf("logged %q, want %q", got, want)
	}
}
