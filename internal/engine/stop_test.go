package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/deltafifo"
	"github.com/tidings/tidings/internal/guard"
	"github.com/tidings/tidings/internal/usercode"
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

// TestHandlerStopsWhatDidNotStart: parts made by a failed start never ran, so nobody waits for them.
func TestHandlerStopsWhatDidNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := errors.New("no source")
		inf, _ := newSaved(t, t.TempDir(), false)
		inf.reports = usercode.NewReporter(inf.log)
		inf.cfg.NewSource = func(string) (source.ListerWatcher[settings], error) { return nil, failed }
		if err := inf.Start(t.Context()); !errors.Is(err, failed) {
			t.Fatal(err)
		}
		var handler usercode.Caller
		handler.Enter()
		defer handler.Leave()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := inf.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestPressure: Block handlers hold the informer back unless somebody waits for a version, and
// again when nobody does any more.
func TestPressure(t *testing.T) {
	var p versionWaits
	p.init(t.Context())
	held := func() bool { return p.idleContext().Err() == nil }
	if !held() {
		t.Error("not held back although nobody waits")
	}
	before := p.idleContext()
	first, second := p.begin(), p.begin()
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

// TestHandlerWaitsForAnotherInformer: a handler that stops another informer waits for its end, as anybody does.
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
			if !ended || !usercode.Closed(other.Done()) {
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

// longLived is a context that counts what waits for its end.
type longLived struct {
	context.Context
	end     chan struct{}
	waiting atomic.Int64
}

func newLongLived() *longLived {
	return &longLived{Context: context.Background(), end: make(chan struct{})}
}

func (c *longLived) Done() <-chan struct{} { return c.end }

func (c *longLived) AfterFunc(func()) (stop func() bool) {
	c.waiting.Add(1)
	return func() bool { c.waiting.Add(-1); return true }
}

// TestWaitsLeaveNothingBehind: long-lived contexts do not accumulate ended waits.
func TestWaitsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		user, life, relaxed := newLongLived(), newLongLived(), newLongLived()
		inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
			NewSource: func(string) (source.ListerWatcher[settings], error) { return &answering{}, nil }})
		if err := inf.Start(user); err != nil || user.waiting.Load() != 1 {
			t.Fatalf("%v; %d wait for the end of the context", err, user.waiting.Load())
		}
		go func() { _ = inf.Stop(t.Context()) }()
		<-inf.Done()
		for range 3 {
			if err := waitWithin(user, life, func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
		}
		full := &Subscription[settings]{opts: HandlerOptions{Queue: deltafifo.Options{Policy: deltafifo.Block, Limit: 1}}}
		full.queue = deltafifo.New[settings](full.opts.Queue)
		inf.subs, inf.versionWaits.ctx = []*Subscription[settings]{full}, relaxed
		for range 3 {
			full.queue.Add([]object.Delta[settings]{{Type: object.Added, Key: keyOf(1), Object: namedSettings(1)}}, "1")
			went := make(chan struct{})
			go func() { inf.waitForRoom(life); close(went) }()
			synctest.Wait()
			if usercode.Closed(went) || relaxed.waiting.Load() != 1 {
				t.Error("the part was not held back")
			}
			batch, err := full.queue.Pop(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			full.queue.Done(len(batch.Deltas))
			<-went
		}
		if user.waiting.Load() != 0 || life.waiting.Load() != 0 || relaxed.waiting.Load() != 0 {
			t.Errorf("%d, %d and %d are left", user.waiting.Load(), life.waiting.Load(), relaxed.waiting.Load())
		}
	})
}

// TestEndedHandlerKeepsNothing: undelivered changes are freed, and no status counts them.
func TestEndedHandlerKeepsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := manySettings(5)
		inf := startOf(t, &answering{items: items})
		var s *Subscription[settings]
		known := make(chan struct{})
		handler := func(object.Delta[settings]) { <-known; <-s.Done() } // not of the informer, whose end comes a moment before
		s, err := inf.Subscribe(handler, HandlerOptions{OnSynced: func() {}})
		if err != nil {
			t.Fatal(err)
		}
		close(known)
		synctest.Wait()
		s.queue.Add([]object.Delta[settings]{{Type: object.Updated, Key: keyOf(1), Object: items[1], Old: items[1]}}, "6")
		if st := s.Status(); st.Pending != 6 {
			t.Errorf("%+v", st)
		}
		inf.Halt(nil)
		<-inf.done
		if st := s.Status(); st.Pending != 0 || st.Delivered != 1 || s.handler.Deliver != nil || s.opts.OnSynced != nil {
			t.Errorf("in the end %+v, the handler is kept: %t", st, s.handler.Deliver != nil || s.opts.OnSynced != nil)
		}
	})
}

// TestPendingGoesDown with each call, of an initial list and of changes.
func TestPendingGoesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := manySettings(5)
		inf := startOf(t, &answering{items: items})
		synctest.Wait()
		var s *Subscription[settings]
		var pending []int
		ready := make(chan struct{})
		s, err := inf.Subscribe(func(object.Delta[settings]) {
			<-ready
			pending = append(pending, s.Status().Pending)
		}, HandlerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		close(ready)
		synctest.Wait()
		var deltas []object.Delta[settings]
		for i := range 3 {
			deltas = append(deltas, object.Delta[settings]{Type: object.Updated, Key: keyOf(i), Object: items[i], Old: items[i]})
		}
		s.queue.Add(deltas, "6")
		synctest.Wait()
		if want := []int{5, 4, 3, 2, 1, 3, 2, 1}; !slices.Equal(pending, want) || s.Status().Pending != 0 {
			t.Errorf("pending %v and %d in the end, want %v and none", pending, s.Status().Pending, want)
		}
	})
}

// TestGuardLooksOnceMoreInTheEnd: a write to a remembered object is found when the informer ends.
func TestGuardLooksOnceMoreInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := startOf(t, &answering{})
		synctest.Wait()
		o := namedSettings(1)
		inf.guard.sampler.Keep(o, guard.EveryChange)
		o.Labels = map[string]string{"written": "to"}
		inf.Halt(nil)
		<-inf.done
		if n := inf.Status().Mutations; n != 1 {
			t.Errorf("%d mutations were found", n)
		}
	})
}

// TestStartAndStopAgain have no further effect, whatever happens to their contexts.
func TestStartAndStopAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := startOf(t, &answering{})
		synctest.Wait()
		before := inf.currentParts()
		if err := inf.Start(t.Context()); err != nil || len(inf.currentParts()) != 1 || inf.currentParts()[0] != before[0] {
			t.Errorf("%v, %d parts", err, len(inf.currentParts()))
		}
		if err := inf.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		for range 20 { // which of the two is checked first is random
			if err := inf.Stop(ended); err != nil {
				t.Fatalf("a stop of what has stopped: %v", err)
			}
		}
		if err := inf.Start(t.Context()); !errors.Is(err, ErrStopped) {
			t.Errorf("started again: %v", err)
		}
	})
}

// TestTypeOfASourceThatCannotBeMade: the type is unknown, and Start returns the error.
func TestTypeOfASourceThatCannotBeMade(t *testing.T) {
	failed := errors.New("no source")
	inf := New(Config[object.Object]{Name: "anything", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler)},
		Memory:    newBudget(1),
		NewSource: func(string) (source.ListerWatcher[object.Object], error) { return nil, failed }})
	if err := inf.Start(t.Context()); !errors.Is(err, failed) || inf.Name() != "anything" {
		t.Errorf("%s: %v", inf.Name(), err)
	}
	inf.Halt(nil)
	<-inf.done
}

// TestStopFromARemovedPart: a function that a removed namespace still runs may stop the informer,
// and the stop does not wait for it.
func TestStopFromARemovedPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inf *Informer[settings]
		removed, stopped := make(chan struct{}), make(chan error, 1)
		src := &scoped{version: map[string]string{"a": "10", "b": "10"}, behind: func(context.Context) error { return nil }}
		src.items = []settings{setting("a", 1, 1)}
		inf = New(Config[settings]{
			Name: "configmaps", Namespaces: []string{"a", "b"}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true}, NewSource: src.of,
			Transform: func(o settings) (settings, error) {
				<-removed
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				stopped <- inf.Stop(ctx)
				return o, nil
			},
		})
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ended, end := context.WithCancel(t.Context())
		end()
		if err := inf.SetNamespaces(ended, []string{"b"}); !errors.Is(err, context.Canceled) {
			t.Errorf("the namespace is gone although its transform runs: %v", err)
		}
		close(removed)
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		<-inf.done
		if len(inf.running) != 0 {
			t.Errorf("%d parts are kept after they have ended", len(inf.running))
		}
	})
}
