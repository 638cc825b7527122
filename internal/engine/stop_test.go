package engine

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// TestHandlerStopsWhatNeverRan: there is nothing to wait for.
func TestHandlerStopsWhatNeverRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := New(Config[settings]{Name: "others", Options: Options{Logger: slog.New(slog.DiscardHandler), OnError: func(error) {}}})
		o := namedSettings(1)
		o.ResourceVersion = "5"
		inf := startOf(t, &answering{items: []settings{o}})
		stopped := make(chan error, 1)
		_, err := inf.Subscribe(func(object.Delta[settings]) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			err := other.Stop(ctx)
			if took := time.Since(began); took != 0 {
				t.Errorf("the stop took %v", took)
			}
			stopped <- err
		}, HandlerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// TestHandlerStopsWhatDidNotStart: what a failed start has made was never run, so that nobody waits for it.
func TestHandlerStopsWhatDidNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("no source")
		inf, _ := newSaved(t, t.TempDir(), false)
		inf.reports = newReporter(inf.log)
		inf.cfg.NewSource = func(string) (source.ListerWatcher[settings], error) { return nil, failed }
		if err := inf.Start(t.Context()); !errors.Is(err, failed) {
			t.Fatal(err)
		}
		var handler caller
		handler.enter()
		defer handler.leave()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := inf.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestPressure: Block handlers hold the informer back unless somebody waits for a version, and again when nobody does any more.
func TestPressure(t *testing.T) {
	var p pressure
	p.init(t.Context())
	held := func() bool { return p.relaxed().Err() == nil }
	if !held() {
		t.Error("not held back although nobody waits")
	}
	before := p.relaxed()
	first, second := p.enter(), p.enter()
	if held() || before.Err() == nil {
		t.Error("held back although two wait")
	}
	first()
	if held() {
		t.Error("held back although one waits")
	}
	second()
	if !held() {
		t.Error("not held back although nobody waits any more")
	}
}

// TestHandlerWaitsForAnotherInformer: a handler that stops another informer waits for its end, as everybody does.
func TestHandlerWaitsForAnotherInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		other := New(Config[settings]{
			Name: "others", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
			NewSource: func(string) (source.ListerWatcher[settings], error) { return &answering{}, nil },
			OnEnd:     func() { time.Sleep(time.Second); ended = true },
		})
		if err := other.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		o := namedSettings(1)
		o.ResourceVersion = "5"
		inf := startOf(t, &answering{items: []settings{o}})
		stopped := make(chan error, 1)
		_, err := inf.Subscribe(func(object.Delta[settings]) {
			err := other.Stop(t.Context())
			if !ended || !closed(other.Done()) {
				t.Error("the stop returned before the informer had ended")
			}
			stopped <- err
		}, HandlerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}
