package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/internal/guard"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// callBack makes the informer's logger call a function for messages that contain these words, after
// checking that the informer's locks are free. The informer must be idle.
func callBack(t *testing.T, inf *Informer[settings], words string, call func()) (called *int) {
	called = new(int)
	inf.log = usercode.NewThrottledLog(slog.New(onMessage{slog.NewTextHandler(io.Discard, nil), func(message string) {
		if !strings.Contains(message, words) {
			return
		}
		*called++
		if !inf.apply.TryLock() {
			t.Error("the apply lock is held while the logger is called")
			return
		}
		inf.apply.Unlock()
		if !inf.mu.TryLock() {
			t.Error("the informer's lock is held while the logger is called")
			return
		}
		inf.mu.Unlock()
		call()
	}}))
	inf.guard.log = inf.log
	return called
}

// TestLoggerMayCallTheInformer, even if a change that holds the informer's locks finds an object that cannot be opened.
func TestLoggerMayCallTheInformer(t *testing.T) {
	index := func(o *corev1.ConfigMap) []string { return []string{o.Name} }
	for name, find := range map[string]func(t *testing.T, inf *Informer[settings]){
		"a reader":      func(_ *testing.T, inf *Informer[settings]) { inf.store.Snapshot().Get(garbage) },
		"a new index":   func(_ *testing.T, inf *Informer[settings]) { inf.AddIndex("name", index) },
		"a new handler": func(t *testing.T, inf *Informer[settings]) { subscribeTo(t, inf) },
		"a removal": func(t *testing.T, inf *Informer[settings]) {
			subscribeTo(t, inf)
			// The new handler may find it as well; then the logger has perhaps stopped the informer by now.
			if err := inf.SetNamespaces(t.Context(), []string{"other"}); err != nil && !errors.Is(err, ErrStopped) {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf := resumedFromGarbage(t, &answering{list: errors.New("down")}, nil, io.Discard)
				called := callBack(t, inf, "cannot be opened", func() {
					s := subscribeTo(t, inf)
					inf.RemoveIndexes(nil)
					ended, cancel := context.WithCancel(t.Context())
					cancel()
					_, _ = inf.WaitForSync(ended, false)
					if err := errors.Join(s.Remove(t.Context()), inf.SetNamespaces(t.Context(), []string{"third"}), inf.Stop(t.Context())); err != nil {
						t.Error(err)
					}
				})
				find(t, inf)
				synctest.Wait()
				if *called != 1 {
					t.Errorf("the logger was called %d times", *called)
				}
			})
		})
	}
}

func subscribeTo(t *testing.T, inf *Informer[settings]) *Subscription[settings] {
	t.Helper()
	s, err := inf.Subscribe(func(object.Delta[settings]) {}, HandlerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFoundUnderALock: what is found while somebody holds the informer's locks, however long, is
// counted at once, and logged, reported and healed when they are free. The finder does not wait.
func TestFoundUnderALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := resumedFromGarbage(t, &answering{items: manySettings(3)}, nil, io.Discard)
		p := inf.currentParts()[0]
		before := p.reflector.Status().Lists
		unopened, written := 0, 0
		inf.log = usercode.NewThrottledLog(slog.New(onMessage{slog.NewTextHandler(io.Discard, nil), func(message string) {
			if strings.Contains(message, "cannot be opened") {
				unopened++
			}
			if strings.Contains(message, "written to") {
				written++
			}
		}}))
		inf.guard.log = inf.log
		inf.apply.Lock()
		inf.mu.Lock()
		found := make(chan struct{})
		go func() {
			defer close(found)
			inf.openFailed(garbage, errors.New("oh"))
			inf.onStrayPart(keyOf(1))
		}()
		<-found
		if unopened+written > 0 || inf.guard.found.Load() != 1 || p.reflector.Status().Lists != before {
			t.Errorf("under the locks: %d and %d calls of the logger, %d mutations, %d lists", unopened, written, inf.guard.found.Load(), p.reflector.Status().Lists-before)
		}
		inf.mu.Unlock()
		inf.unlockApply()
		time.Sleep(time.Minute)
		synctest.Wait()
		if unopened != 1 || written != 1 || inf.guard.found.Load() != 1 || p.reflector.Status().Lists != before+1 {
			t.Errorf("afterwards: %d and %d calls of the logger, %d mutations, %d lists", unopened, written, inf.guard.found.Load(), p.reflector.Status().Lists-before)
		}
	})
}

// TestStopFromEveryGoroutine: the logger may stop the informer whichever goroutine calls it.
func TestStopFromEveryGoroutine(t *testing.T) {
	for name, provoke := range map[string]func(t *testing.T, inf *Informer[settings], log func()){
		"the last one, which ends all": func(_ *testing.T, inf *Informer[settings], _ func()) {
			o := namedSettings(1)
			inf.guard.sampler.Keep(o, guard.EveryChange)
			o.Labels = map[string]string{"written": "to"}
			inf.Halt(nil)
		},
		"that of audits": func(*testing.T, *Informer[settings], func()) {
			time.Sleep(2 * time.Hour) // an audit that cannot compare is logged
		},
		"that of resyncs": func(t *testing.T, inf *Informer[settings], log func()) {
			if _, err := inf.Subscribe(func(object.Delta[settings]) {}, HandlerOptions{Resync: time.Minute}); err != nil {
				t.Fatal(err)
			}
			inf.deferredCalls.add(log) // as if it had been found under the lock that a resync takes
			time.Sleep(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var inf *Informer[settings]
				var stopped []error
				handler := onMessage{slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug}), func(message string) {
					if strings.HasPrefix(message, "found") || strings.HasPrefix(message, "an audit") || strings.HasPrefix(message, "a cached object") {
						stopped = append(stopped, inf.Stop(t.Context()))
					}
				}}
				inf = New(Config[settings]{
					Name: "configmaps", Namespaces: []string{""}, Options: Options{Logger: slog.New(handler), NoWatchList: true, Audit: time.Hour},
					NewSource: func(string) (source.ListerWatcher[settings], error) {
						return &answering{open: errors.New("no watch")}, nil
					},
				})
				if err := inf.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				provoke(t, inf, func() { inf.log.Log(slog.LevelError, "found") })
				synctest.Wait()
				if !usercode.Closed(inf.done) || len(stopped) != 1 || stopped[0] != nil {
					t.Errorf("ended %t, after stops that returned %v", usercode.Closed(inf.done), stopped)
				}
			})
		})
	}
}
