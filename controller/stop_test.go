package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/object"
)

func TestRunSaysWhichCacheIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready, missing := newPodCache(newServer()), newPodCache(newServer())
		missing.synced = make(chan struct{})
		c := New("test", func(context.Context, object.Key) (Result, error) {
			t.Error("reconciled without a cache")
			return Result{}, nil
		}, Options{SyncTimeout: time.Minute})
		Watch(c, ready, Self[*corev1.Pod])
		Use(c, missing)
		c.Enqueue(key("a"))
		err := c.Run(t.Context())
		want := "controller test: pods: forbidden: grant list and watch: not in sync after 1m0s"
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if ready.handlerCount()+missing.handlerCount() != 0 {
			t.Error("handlers are left")
		}
	})
}

func TestStopDuringSyncIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing := newPodCache(newServer())
		missing.synced = make(chan struct{})
		c := New("test", nil, Options{})
		Use(c, missing)
		stop := running(t, c)
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestRunNamesTheWorkerThatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := New("test", func(context.Context, object.Key) (Result, error) {
			<-release
			return Result{}, nil
		}, Options{StopTimeout: time.Minute, Timeout: time.Hour})
		stop := running(t, c)
		c.Enqueue(key("a"))
		synctest.Wait()
		if err := c.Healthz(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour + 30*time.Second)
		if err := c.Healthz(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour - 30*time.Second)
		if err := c.Healthz(); err == nil || !strings.Contains(err.Error(), "shop/a has been running for 2h0m0s") {
			t.Errorf("healthz: %v", err)
		}
		err := stop()
		want := "controller test: work is still running 1m0s after its context has ended: reconcile of shop/a"
		if !errors.Is(err, ErrStillRunning) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		close(release)
	})
}

// refusing is a cache that immediately says why it will never be in sync.
type refusing struct{ *podCache }

func (refusing) WaitForSync(context.Context) error { return errBroken }

// TestOneCacheIsEnoughToFail: a controller does not wait for caches that cannot change the outcome.
func TestOneCacheIsEnoughToFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing := newPodCache(newServer())
		missing.synced = make(chan struct{})
		c := New("test", succeed, Options{})
		Use(c, missing)
		Use(c, refusing{newPodCache(newServer())})
		began := time.Now()
		err := c.Run(t.Context())
		if !errors.Is(err, errBroken) || strings.Contains(err.Error(), "forbidden") || time.Since(began) != 0 {
			t.Errorf("after %v: %v, want at once what is wrong with the one that fails", time.Since(began), err)
		}
	})
}
