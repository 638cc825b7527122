package promises_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

func TestWaitForSyncSaysWhatIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.fail(forbidden())
		inf := start(t, c, tidings.InformerOptions[pod]{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()

		began := time.Now()
		err := inf.WaitForSyncFailFast(ctx)
		var syncErr *tidings.SyncError
		if !errors.As(err, &syncErr) || !syncErr.Permanent() || time.Since(began) > time.Second {
			t.Errorf("fail fast: %v after %v, want a permanent SyncError at once", err, time.Since(began))
		}
		err = inf.WaitForSync(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "pods: forbidden: ") ||
			!strings.Contains(err.Error(), "grant list and watch") {
			t.Errorf("at the deadline: %v", err)
		}
		if err := inf.Fresh(); err == nil {
			t.Error("an informer that has not synced is called fresh")
		}

		c.fail(nil) // the grant comes
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Error(err)
		}
		if err := inf.Fresh(); err != nil {
			t.Error(err)
		}
	})
}

func TestWaitDoesNotHangOnAnInformerThatDoesNotRun(t *testing.T) {
	inf, err := tidings.NewInformer[pod](newCluster(), tidings.InformerOptions[pod]{Name: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	reg := mustAdd(t, inf, &told{}, tidings.HandlerOptions{})
	waits := map[string]func(context.Context) error{
		"WaitForSync":              inf.WaitForSync,
		"WaitForSyncFailFast":      inf.WaitForSyncFailFast,
		"Registration.WaitForSync": reg.WaitForSync,
		"WaitFor":                  func(ctx context.Context) error { return inf.WaitForVersion(ctx, tidings.All, "1") },
	}
	for name, wait := range waits {
		if err := wait(t.Context()); !errors.Is(err, tidings.ErrNotStarted) {
			t.Errorf("%s before the start: %v", name, err)
		}
	}
	if err := inf.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, wait := range waits {
		if err := wait(t.Context()); !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("%s after the stop: %v", name, err)
		}
	}
	if st := inf.Status(); st.Started || !st.Stopped || !errors.Is(st.NotFresh, tidings.ErrStopped) {
		t.Errorf("after the stop: started %t, stopped %t, %v", st.Started, st.Stopped, st.NotFresh)
	}
	if err := inf.Start(t.Context()); !errors.Is(err, tidings.ErrStopped) {
		t.Errorf("Start after the stop: %v", err)
	}
	if _, err := inf.AddHandler(&told{}, tidings.HandlerOptions{}); !errors.Is(err, tidings.ErrStopped) {
		t.Errorf("AddHandler after the stop: %v", err)
	}
}

func TestWaitsEndWhenTheInformerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.fail(errors.New("down"))
		inf := start(t, c, tidings.InformerOptions[pod]{})
		synced, current := make(chan error, 1), make(chan error, 1)
		go func() { synced <- inf.WaitForSync(context.Background()) }()
		go func() { current <- inf.WaitForVersion(context.Background(), tidings.All, "7") }()
		synctest.Wait()
		if err := inf.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-synced; !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("WaitForSync: %v", err)
		}
		if err := <-current; !errors.Is(err, tidings.ErrStopped) {
			t.Errorf("WaitFor: %v", err)
		}
	})
}

func TestSilentServerMakesTheInformerStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{StaleAfter: time.Minute}})
		synctest.Wait()
		if st := inf.Status(); st.NotFresh != nil || !st.Synced {
			t.Fatalf("status %+v, want synced and fresh", st)
		}
		time.Sleep(2 * time.Minute)
		if st := inf.Status(); st.NotFresh == nil || st.Age < time.Minute {
			t.Errorf("status %+v, want stale", st)
		}
		if err := inf.Fresh(); err == nil || !strings.Contains(err.Error(), "stale") {
			t.Errorf("Fresh: %v", err)
		}
		c.write(newPod("a", "x"))
		synctest.Wait()
		if err := inf.Fresh(); err != nil {
			t.Error(err)
		}
	})
}

// TestBlockingHandlerMakesTheInformerStale: health names the handler, since nothing is wrong with the server.
func TestBlockingHandlerMakesTheInformerStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{StaleAfter: time.Minute}})
		release := make(chan struct{})
		mustAdd(t, inf, tidings.DeltaFunc[pod](func(tidings.Delta[pod]) { <-release }), tidings.HandlerOptions{Name: "hangs", Policy: tidings.Block, Buffer: 1})
		mustAdd(t, inf, tidings.DeltaFunc[pod](func(tidings.Delta[pod]) { <-release }), tidings.HandlerOptions{Name: "lags"})
		synctest.Wait()
		for _, name := range []string{"u", "v", "w", "x", "y", "z"} {
			c.write(newPod("a", name))
			synctest.Wait()
		}
		if err := inf.Fresh(); err != nil {
			t.Errorf("at once: %v", err)
		}
		time.Sleep(2 * time.Minute)
		want := "pods: stale: nothing heard from the server for 2m0s; the buffers of handlers are full, and the informer waits for room: hangs"
		if err := inf.Fresh(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		close(release)
		synctest.Wait()
		if err := inf.Fresh(); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitForSyncLogsWhatIsInTheWay within seconds, and then once a minute, however many wait.
func TestWaitForSyncLogsWhatIsInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log output
		c := newCluster()
		c.fail(forbidden())
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
		for wait, want := range map[time.Duration]int{time.Second: 0, 2 * time.Second: 1, 61 * time.Second: 1, 62 * time.Second: 2} {
			time.Sleep(time.Minute)
			log.take()
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			var waiting sync.WaitGroup
			for range 3 {
				waiting.Go(func() {
					if err := inf.WaitForSync(ctx); !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
				})
			}
			waiting.Wait()
			cancel()
			text := log.take()
			if got := strings.Count(text, `msg="waiting for sync"`); got != want || strings.Count(text, "forbidden") < want {
				t.Errorf("a wait of %v says %d times what is in the way, want %d: %s", wait, got, want, text)
			}
		}
	})
}

// slowList is a cluster whose list brings an object every second, without end.
type slowList struct{ *cluster }

func (s slowList) List(ctx context.Context, _ source.ListOptions[pod], each func(pod) error) (source.ListResult, error) {
	for i := 0; ; i++ {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return source.ListResult{}, ctx.Err()
		}
		if err := each(newPod("b", fmt.Sprint("x", i))); err != nil {
			return source.ListResult{}, err
		}
	}
}

// TestWaitForSyncNamesTheNamespace that holds it up, although nothing has failed there, and how far
// it has got by now, in the error and in the log.
func TestWaitForSyncNamesTheNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log output
		f := tidings.NewSourceFactory(tidings.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		tidings.SetSource(f, func(_ tidings.Scope, namespace string) (source.ListerWatcher[pod], error) {
			if namespace == "b" {
				return slowList{newCluster()}, nil
			}
			return newCluster(), nil
		})
		inf, err := tidings.Informer[pod](f, tidings.Scope{Namespaces: []string{"a", "b", "c"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer cancel()
		for what, err := range map[string]error{"the wait": inf.WaitForSync(ctx), "health": inf.Fresh()} {
			if err == nil || !strings.HasPrefix(err.Error(), `pods (namespace "b"): not synced yet (listing, 4 objects so far)`) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if text := log.take(); !strings.Contains(text, `msg="waiting for sync" resource=pods namespace=b progress="listing, 1 objects so far"`) {
			t.Errorf("the log does not name the namespace: %s", text)
		}
		if err := f.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestHandlerThatCannotSync is told why: because its informer has not, or because it has not been
// notified of everything.
func TestHandlerThatCannotSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		c.fail(forbidden())
		inf := start(t, c, tidings.InformerOptions[pod]{})
		wait := func(reg *tidings.Registration) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return reg.WaitForSync(ctx)
		}
		release := make(chan struct{})
		slow := tidings.DeltaFunc[pod](func(tidings.Delta[pod]) { <-release })
		reg := mustAdd(t, inf, slow, tidings.HandlerOptions{Name: "slow"})
		err := wait(reg)
		if syncErr, ok := errors.AsType[*tidings.SyncError](err); !ok || !syncErr.Permanent() || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want that the informer has not synced, and why", err)
		}
		if want := `pods: handler "slow" has not synced: 0 deltas delivered, 0 pending: pods: forbidden: `; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s…", err, want)
		}
		c.fail(nil)
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err, want := wait(reg), `pods: handler "slow" has not synced: 1 deltas delivered, 1 pending: context deadline exceeded`; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		close(release)
		if err := wait(reg); err != nil {
			t.Error(err)
		}
	})
}
