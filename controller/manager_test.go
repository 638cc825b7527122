package controller

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/object"
)

func succeed(context.Context, object.Key) (Result, error) { return Result{}, nil }

func TestManagerStopsAllWhenOneFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing := newPodCache(newServer())
		missing.synced = make(chan struct{})
		failing := New("failing", succeed, Options{SyncTimeout: time.Minute})
		Use(failing, missing)
		m := NewManager(nil)
		m.Add(New("first", succeed, Options{}), failing)
		err := m.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "controller failing: pods: forbidden") {
			t.Error(err)
		}
		if stats := m.Stats(); len(stats) != 2 || stats[0].Name != "first" || stats[1].Name != "failing" {
			t.Errorf("%+v", stats)
		}
	})
}

func TestManagerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewManager(nil)
		m.Add(New("one", succeed, Options{}), New("two", succeed, Options{}))
		stop := running(t, m)
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestManagerSetup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewManager(nil)
		if err := m.Add(New("one", succeed, Options{}), New("two", succeed, Options{})); err != nil {
			t.Error(err)
		}
		stop := running(t, m)
		synctest.Wait()
		if err := m.Add(New("three", succeed, Options{})); !errors.Is(err, ErrStarted) {
			t.Errorf("Add after Run: %v", err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := m.Run(t.Context()); !errors.Is(err, ErrStarted) {
			t.Errorf("second Run: %v", err)
		}
	})
	one := New("one", succeed, Options{})
	for want, controllers := range map[string][]*Controller{
		`manager: there are two controllers with the name "one"`: {one, New("one", succeed, Options{})},
		"manager: a controller is nil":                           {one, nil},
	} {
		m := NewManager(nil)
		if err := m.Add(controllers...); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if err := m.Run(t.Context()); err == nil || err.Error() != want {
			t.Errorf("Run: got  %v\nwant %s", err, want)
		}
	}
}

// TestManagerWithoutControllers waits for its end like any other.
func TestManagerWithoutControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		if err := NewManager(nil).Run(ctx); err != nil || time.Since(start) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// TestManagerRunsWhileItLeads takes the lease away from a manager whose controller is at work.
func TestManagerRunsWhileItLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		other := newCandidate(s, "other").start()
		synctest.Wait()
		var cause error
		started := make(chan struct{})
		c := New("test", func(ctx context.Context, _ object.Key) (Result, error) {
			close(started)
			<-ctx.Done()
			cause = context.Cause(ctx)
			return Result{}, nil
		}, Options{})
		c.Enqueue(key("a"))
		client := &leaseClient{server: s}
		m := NewManager(&LeaseElector{Client: client, Name: "demo", Identity: "me"})
		m.Add(c)
		done := make(chan error, 1)
		go func() { done <- m.Run(t.Context()) }()
		time.Sleep(time.Minute)
		select {
		case <-started:
			t.Fatal("the controller runs while another leads")
		default:
		}
		other.stop()
		<-other.done
		<-started
		client.cut.Store(true)
		if err := <-done; !errors.Is(err, ErrLeaseLost) || !errors.Is(cause, ErrLeaseLost) {
			t.Errorf("err %v, cause %v", err, cause)
		}
	})
}

func TestManagerEndsBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		other := newCandidate(s, "other").start()
		synctest.Wait()
		m := NewManager(&LeaseElector{Client: &leaseClient{server: s}, Name: "demo", Identity: "me"})
		stop := running(t, m)
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		other.stop()
		<-other.done
	})
}

func TestChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := newPodCache(newServer())
		c := New("test", succeed, Options{Timeout: -1})
		Watch(c, cache, Self[*corev1.Pod])
		m := NewManager(nil)
		m.Add(c)
		expect := func(path string, code int, text string) {
			t.Helper()
			w := httptest.NewRecorder()
			m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			if w.Code != code || strings.TrimSpace(w.Body.String()) != text {
				t.Errorf("%s: %d %q", path, w.Code, w.Body)
			}
		}
		expect("/healthz", 200, "ok")
		expect("/readyz", 200, "ok")
		cache.setStale(errors.New("no news for 5m0s"))
		expect("/readyz", 503, "controller test: pods: no news for 5m0s")
		expect("/healthz", 200, "ok")
		time.Sleep(staleLimit)
		expect("/healthz", 503, "controller test: pods: no news for 5m0s")
		cache.setStale(nil)
		expect("/readyz", 200, "ok")
		expect("/healthz", 200, "ok")
		cache.setStale(errBroken)
		expect("/healthz", 200, "ok")
		expect("/nothing", 404, "404 page not found")
	})
}
