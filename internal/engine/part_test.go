package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/deltafifo"
	"github.com/tidings/tidings/internal/guard"
	"github.com/tidings/tidings/internal/saved"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// TestTransformKeepsTheIdentity uses transforms that remove or change one part of an object's identity.
func TestTransformKeepsTheIdentity(t *testing.T) {
	for name, change := range map[string]func(settings){
		"namespace": func(o settings) { o.Namespace = "other" }, "name": func(o settings) { o.Name = "" },
		"uid": func(o settings) { o.UID = "" }, "version": func(o settings) { o.ResourceVersion = "9" }, "": func(settings) {},
	} {
		inf := New(Config[settings]{Name: "configmaps", Options: Options{Logger: slog.New(slog.DiscardHandler)}})
		p := &part[settings]{inf: inf}
		p.transform.fn = func(o settings) (settings, error) {
			change(o)
			o.Data = map[string]string{"transformed": "yes"}
			return o, nil
		}
		out, _ := p.transformed(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x", UID: "u", ResourceVersion: "1"}})
		if out.Namespace != "shop" || out.Name != "x" || out.UID != "u" || out.ResourceVersion != "1" || out.Data["transformed"] != "yes" {
			t.Errorf("%s: %+v", name, out)
		}
		if n := inf.transformErrors.Load(); n > 1 || (n == 1) != (name != "") {
			t.Errorf("%s: %d errors counted", name, n)
		}
	}
}

// answering is a source of config maps whose answers a test sets.
type answering struct {
	items      []settings
	list, open error
}

func (a *answering) List(_ context.Context, _ source.ListOptions[settings], each func(settings) error) (source.ListResult, error) {
	if a.list != nil {
		return source.ListResult{}, a.list
	}
	for _, o := range a.items {
		if err := each(o); err != nil {
			return source.ListResult{}, err
		}
	}
	return source.ListResult{ResourceVersion: "10"}, nil
}

func (a *answering) Watch(ctx context.Context, _ source.WatchOptions[settings]) (source.Stream[settings], error) {
	if a.open != nil {
		return nil, a.open
	}
	return quiet{ctx}, nil
}

// quiet is a watch on which nothing comes.
type quiet struct{ ctx context.Context }

func (q quiet) Next(buf []source.Event[settings]) ([]source.Event[settings], error) {
	<-q.ctx.Done()
	return buf, io.EOF
}

func (q quiet) Close() error { return nil }

// startOf starts an informer of one namespace with a source.
func startOf(t *testing.T, src source.ListerWatcher[settings]) *Informer[settings] {
	t.Helper()
	inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
		NewSource: func(string) (source.ListerWatcher[settings], error) { return src, nil }})
	if err := inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		inf.Halt(nil)
		<-inf.done
	})
	return inf
}

// TestListOvercomesItsProblem: between a list and the reflector's next status, the status shows no
// problem that the list resolved, but still shows problems with the watch.
func TestListOvercomesItsProblem(t *testing.T) {
	for name, tt := range map[string]struct {
		src      answering
		overcome bool
	}{
		"of the list":  {answering{list: errors.New("no list")}, true},
		"of the watch": {answering{open: errors.New("no watch")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf := startOf(t, &tt.src)
				synctest.Wait()
				p := inf.currentParts()[0]
				if st := p.reflectorStatus(); st.Problem == nil || st.Failures == 0 || (st.Problem.Phase == reflector.Watching) == tt.overcome {
					t.Fatalf("problem %v, %d failures", st.Problem, st.Failures)
				}
				inf.applyList(p, object.Items[settings]{}, "10", newerOnly)
				if st := p.reflectorStatus(); (st.Problem == nil) != tt.overcome || (st.Failures == 0) != tt.overcome {
					t.Errorf("problem %v and %d failures after a list", st.Problem, st.Failures)
				}
			})
		})
	}
}

// TestCallersAreForgotten: nothing is kept of ended goroutines.
func TestCallersAreForgotten(t *testing.T) {
	count := usercode.Running
	synctest.Test(t, func(t *testing.T) {
		before := count()
		inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{""}, Options: Options{
			Logger: slog.New(slog.DiscardHandler), NoWatchList: true, OnError: func(error) {},
			Files: &saved.Options{Dir: t.TempDir(), Cluster: func(context.Context) (string, error) { return "test", nil }},
		},
			NewSource: func(string) (source.ListerWatcher[settings], error) { return &answering{}, nil }})
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := inf.Subscribe(func(object.Delta[settings]) {}, HandlerOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := count() - before; n != 4 { // the part's, the handler's, the saver's, which logs, and the reporter's
			t.Errorf("%d goroutines call the user's code, want 4", n)
		}
		inf.Halt(nil)
		<-inf.done
		if n := count() - before; n != 0 {
			t.Errorf("%d goroutines are remembered", n)
		}
	})
}

// TestLateHandlerOfOneObject adds handlers when there are no objects, and one.
func TestLateHandlerOfOneObject(t *testing.T) {
	for n := range 3 {
		synctest.Test(t, func(t *testing.T) {
			src := &answering{}
			for i := range n {
				o := namedSettings(i)
				o.ResourceVersion = "5"
				src.items = append(src.items, o)
			}
			inf := startOf(t, src)
			synctest.Wait()
			var notes []object.Delta[settings]
			s, err := inf.Subscribe(func(d object.Delta[settings]) { notes = append(notes, d) }, HandlerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if len(notes) != n || !usercode.Closed(s.Synced()) {
				t.Errorf("%d notifications of %d objects, synced %t", len(notes), n, usercode.Closed(s.Synced()))
			}
			for _, d := range notes {
				if d.Type != object.Added || !d.Initial {
					t.Errorf("%+v, want what is there", d)
				}
			}
		})
	}
}

// TestRemovedHandlerIsOffTheList: a removed handler is not notified, and not in the status.
func TestRemovedHandlerIsOffTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := startOf(t, &answering{})
		var subs []*Subscription[settings]
		for range 3 {
			s, err := inf.Subscribe(func(object.Delta[settings]) {}, HandlerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			subs = append(subs, s)
		}
		synctest.Wait()
		if err := subs[1].Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := inf.subscriptions(); len(got) != 2 || got[0] != subs[0] || got[1] != subs[2] {
			t.Errorf("%d handlers are told of changes, want the first and the third", len(got))
		}
		if got := inf.living(); len(got) != 2 || got[0] != subs[0] || got[1] != subs[2] {
			t.Errorf("%d handlers run, want the first and the third", len(got))
		}
		if n := len(inf.Status().Handlers); n != 2 {
			t.Errorf("%d handlers in the status", n)
		}
		if err := subs[1].Remove(t.Context()); err != nil {
			t.Error(err)
		}
		if err := subs[0].Remove(t.Context()); err != nil {
			t.Error(err)
		}
		if got := inf.subscriptions(); len(got) != 1 || got[0] != subs[2] {
			t.Errorf("%d handlers are told of changes, want the third", len(got))
		}
	})
}

// slow is a source whose lists take their time to end.
type slow struct {
	*answering
	running *atomic.Int32
}

func (s slow) List(ctx context.Context, _ source.ListOptions[settings], _ func(settings) error) (source.ListResult, error) {
	s.running.Add(1)
	<-ctx.Done()
	time.Sleep(time.Minute)
	s.running.Add(-1)
	return source.ListResult{}, ctx.Err()
}

// TestSetNamespacesWaits: after it returns, no requests are made in the removed namespaces.
func TestSetNamespacesWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{"a", "b"}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
			NewSource: func(namespace string) (source.ListerWatcher[settings], error) {
				if namespace == "b" {
					return slow{&answering{}, &running}, nil
				}
				return &answering{}, nil
			}})
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		if err := inf.SetNamespaces(t.Context(), []string{"a"}); err != nil || running.Load() != 0 || time.Since(began) != time.Minute {
			t.Errorf("after %v: %v, %d lists are running", time.Since(began), err, running.Load())
		}
		if err := inf.SetNamespaces(t.Context(), []string{"a", "b"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var stop *StopError
		if err := inf.SetNamespaces(ctx, []string{"a"}); !errors.As(err, &stop) || !errors.Is(err, context.DeadlineExceeded) || running.Load() != 1 {
			t.Errorf("%v, %d lists are running", err, running.Load())
		}
		inf.Halt(nil)
		<-inf.done
	})
}

// TestSyncOfTheNamespacesThatAreLeft: a wait for sync ends at once when the namespace that held it up is removed.
func TestSyncOfTheNamespacesThatAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{"a", "b"}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
			NewSource: func(namespace string) (source.ListerWatcher[settings], error) {
				return listFunc{&answering{}, func(ctx context.Context) error {
					if namespace == "b" {
						<-ctx.Done()
					}
					return ctx.Err()
				}}, nil
			}})
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		go func() {
			synctest.Wait()
			if err := inf.SetNamespaces(t.Context(), []string{"a"}); err != nil {
				t.Error(err)
			}
		}()
		if o, err := inf.WaitForSync(t.Context(), false); o != nil || err != nil || time.Since(began) != 0 {
			t.Errorf("after %v: %+v, %v", time.Since(began), o, err)
		}
		inf.Halt(nil)
		<-inf.done
	})
}

// TestBadOptionsOfAReflector: Start returns the error.
func TestBadOptionsOfAReflector(t *testing.T) {
	inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), PageSize: -1},
		NewSource: func(string) (source.ListerWatcher[settings], error) { return &answering{}, nil }})
	if err := inf.Start(t.Context()); err == nil {
		t.Error("a negative page size is accepted")
	}
	inf.Halt(nil)
	<-inf.done
}

// TestThrottledLog logs one message often and another twice.
func TestThrottledLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		log := usercode.NewThrottledLog(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})))
		for i := range 130 {
			log.Log(slog.LevelWarn, "often", "i", i)
			time.Sleep(time.Second)
		}
		for range 2 {
			log.Log(slog.LevelError, "twice")
		}
		time.Sleep(time.Hour)
		log.Log(slog.LevelWarn, "often", "i", "later")
		for range 2 {
			log.Log(slog.LevelError, "twice")
			time.Sleep(usercode.LogEvery)
		}
		want := `level=WARN msg=often i=0
level=WARN msg=often i=60 more_since_last=59
level=WARN msg=often i=120 more_since_last=59
level=ERROR msg=twice
level=WARN msg=often i=later more_since_last=9
level=ERROR msg=twice more_since_last=1
level=ERROR msg=twice
`
		if text.String() != want {
			t.Errorf("got\n%swant\n%s", text.String(), want)
		}
	})
}

// TestPanicInAReportIsLogged with the panic's value.
func TestPanicInAReportIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		r := usercode.NewReporter(usercode.NewThrottledLog(slog.New(slog.NewTextHandler(&text, nil))))
		go r.Run()
		r.Report(func() { panic("oh dear") })
		r.End()
		if !strings.Contains(text.String(), "OnError or OnMutation panicked") || !strings.Contains(text.String(), "oh dear") {
			t.Errorf("logged %q", text.String())
		}
	})
}

// asked records how a source is asked.
type asked struct {
	*answering
	noSharing []bool
}

func (a *asked) List(ctx context.Context, opts source.ListOptions[settings], each func(settings) error) (source.ListResult, error) {
	a.noSharing = append(a.noSharing, opts.NoSharing)
	return a.answering.List(ctx, opts, each)
}

func (a *asked) Watch(ctx context.Context, opts source.WatchOptions[settings]) (source.Stream[settings], error) {
	a.noSharing = append(a.noSharing, opts.NoSharing)
	return a.answering.Watch(ctx, opts)
}

// TestTransformedObjectsShareNothing: a transform may write to its argument, so the source is asked
// for unshared objects.
func TestTransformedObjectsShareNothing(t *testing.T) {
	for _, transformed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			src := &asked{answering: &answering{}}
			cfg := Config[settings]{Name: "configmaps", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
				NewSource: func(string) (source.ListerWatcher[settings], error) { return src, nil }}
			if transformed {
				cfg.Transform = func(o settings) (settings, error) { return o, nil }
			}
			inf := New(cfg)
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			inf.Halt(nil)
			<-inf.done
			if len(src.noSharing) != 2 || src.noSharing[0] != transformed || src.noSharing[1] != transformed {
				t.Errorf("a transform: %t, asked for objects that share nothing: %v", transformed, src.noSharing)
			}
		})
	}
}

// TestSeedsOfParts: without a seed everything is random; with one each part has its own random numbers.
func TestSeedsOfParts(t *testing.T) {
	inf := New(Config[settings]{Options: Options{Logger: slog.New(slog.DiscardHandler)}})
	if a, b := inf.partSeed(), inf.partSeed(); a != 0 || b != 0 {
		t.Errorf("seeds %d and %d, want none", a, b)
	}
	seeded := New(Config[settings]{Options: Options{Logger: slog.New(slog.DiscardHandler), Seed: 7}})
	again := New(Config[settings]{Options: Options{Logger: slog.New(slog.DiscardHandler), Seed: 7}})
	a, b := seeded.partSeed(), seeded.partSeed()
	if a == b || a == 0 || b == 0 || again.partSeed() != a || again.partSeed() != b {
		t.Errorf("seeds %d and %d, want two that can be repeated", a, b)
	}
}

// TestPanicInAnEdit leaves the store unchanged and usable.
func TestPanicInAnEdit(t *testing.T) {
	inf := New(Config[settings]{Options: Options{Logger: slog.New(slog.DiscardHandler)}})
	func() {
		defer func() { _ = recover() }()
		inf.Edit(func(txn *store.Txn[settings]) {
			txn.Set(object.Key{Name: "0"}, namedSettings(0))
			panic("oh")
		})
	}()
	inf.Edit(func(txn *store.Txn[settings]) { txn.Set(object.Key{Name: "1"}, namedSettings(1)) })
	if snap := inf.store.Snapshot(); snap.Len() != 1 {
		t.Errorf("%d objects, want the one of the edit that went well", snap.Len())
	}
}

// TestResumedWatchCatchesUp: a watch that resumes from a file has caught up when it reaches the
// version that the server was at, not before, however much comes; if that version is unknown, after
// a quiet time; and never after it has ended.
func TestResumedWatchCatchesUp(t *testing.T) {
	const apart = 90 * time.Millisecond
	for name, tt := range map[string]struct {
		recent string
		news   []string // one after another
		ends   bool
		after  time.Duration // 0 means never
	}{
		"nothing comes":              {recent: "", after: caughtUpAfter},
		"nothing comes to a version": {recent: "200", after: caughtUpAfter},
		"the version comes":          {recent: "200", news: []string{"150", "180", "200", "300", "400", "500"}, after: 3 * apart},
		"a later one comes":          {recent: "200", news: []string{"150", "180", "190", "250", "300", "400", "500"}, after: 4 * apart},
		"it does not come":           {recent: "200", news: []string{"150", "160", "170"}, after: 3*apart + caughtUpAfter},
		"nobody knows the version":   {recent: "", news: []string{"150", "160", "170"}, after: 3*apart + caughtUpAfter},
		"the watch ends":             {recent: "200", news: []string{"150"}, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf := startOf(t, &answering{list: errors.New("down")})
				synctest.Wait()
				p := inf.currentParts()[0]
				p.beginning.resumeFrom("100")
				watch, end := context.WithCancel(t.Context())
				defer end()
				began, caughtUp := time.Now(), time.Duration(0)
				p.OnResume(watch, tt.recent)
				go func() {
					<-inf.Synced()
					caughtUp = time.Since(began)
				}()
				for _, version := range tt.news {
					time.Sleep(apart)
					synctest.Wait()
					p.Change(nil, version)
				}
				if tt.ends {
					end()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if caughtUp != tt.after {
					t.Errorf("caught up after %v, want %v", caughtUp, tt.after)
				}
				if p.beginning.over() {
					p.OnResume(watch, "1000") // for a later watch, which changes nothing
				}
				inf.Halt(nil)
				if tt.after == 0 {
					p.caughtUp() // lets the goroutine end
				}
			})
		})
	}
}

// TestResumedWatchAndItsRoom: changes up to a known version do not wait for room, since a handler
// may be waiting for sync. If the version is unknown they do, so that the queue is bounded, and
// waiting counts as silence.
func TestResumedWatchAndItsRoom(t *testing.T) {
	const changes, limit = 20, 3
	for recent, want := range map[string]int{"200": changes, "": limit + 1} { // including the one that the handler is processing
		t.Run(fmt.Sprintf("version %q", recent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf := startOf(t, &answering{list: errors.New("down")})
				ready := make(chan struct{})
				s, err := inf.Subscribe(func(object.Delta[settings]) { <-ready }, HandlerOptions{Queue: deltafifo.Options{Policy: deltafifo.Block, Limit: limit}})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				p := inf.currentParts()[0]
				p.beginning.resumeFrom("100")
				p.OnResume(t.Context(), recent)
				added := make(chan struct{})
				go func() {
					defer close(added)
					for i, o := range manySettings(changes) {
						p.Change(changesOf(object.Delta[settings]{Type: object.Added, Key: object.KeyOf(o), Object: o}),
							fmt.Sprint(150+i))
					}
				}()
				time.Sleep(caughtUpAfter / 2)
				if p.beginning.over() {
					t.Error("synced before anything was silent")
				}
				time.Sleep(caughtUpAfter)
				synctest.Wait()
				if st := s.Status(); st.Pending != want || !p.beginning.over() {
					t.Errorf("%d changes wait, synced: %t; want %d, and that it has", st.Pending, p.beginning.over(),
						want)
				}
				close(ready)
				<-added
				inf.Halt(nil)
				<-inf.done
			})
		})
	}
}

// sleepy is a slow log handler.
type sleepy struct{ slog.Handler }

func (s sleepy) Handle(context.Context, slog.Record) error {
	time.Sleep(time.Minute)
	return nil
}

// TestSlowChangeIsNoSilence: while a change is passing through the informer, the watch does not count as quiet.
func TestSlowChangeIsNoSilence(t *testing.T) {
	for _, recent := range []string{"", "200"} {
		synctest.Test(t, func(t *testing.T) {
			inf := startOf(t, &answering{list: errors.New("down")})
			inf.AddIndex("broken", func(settings) []string { panic("oh") })
			synctest.Wait()
			inf.log = usercode.NewThrottledLog(slog.New(sleepy{slog.NewTextHandler(io.Discard, nil)}))
			p := inf.currentParts()[0]
			p.beginning.resumeFrom("100")
			p.OnResume(t.Context(), recent)
			go func() {
				o := manySettings(1)[0]
				p.Change(changesOf(object.Delta[settings]{Type: object.Added, Key: object.KeyOf(o), Object: o}), "150")
			}()
			time.Sleep(time.Minute + caughtUpAfter - 1)
			if p.beginning.over() {
				t.Errorf("version %q: synced before the change was through", recent)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if !p.beginning.over() {
				t.Errorf("version %q: not synced although nothing comes any more", recent)
			}
		})
	}
}

// TestNamespacesThatCannotBeAdded leave the informer with its present ones.
func TestNamespacesThatCannotBeAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{"a"}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
			NewSource: func(namespace string) (source.ListerWatcher[settings], error) {
				if namespace == "b" && broken {
					return nil, errors.New("no source")
				}
				return &answering{}, nil
			}})
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := inf.SetNamespaces(t.Context(), []string{"b"}); err == nil || !strings.Contains(err.Error(), "no source") {
			t.Errorf("%v, want why there is none", err)
		}
		if got := inf.Namespaces(); len(got) != 1 || got[0] != "a" || len(inf.currentParts()) != 1 || !inf.HasSynced() {
			t.Errorf("the informer holds %v in %d parts", got, len(inf.currentParts()))
		}
		broken = false
		if err := inf.SetNamespaces(t.Context(), []string{"a", "b"}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(inf.currentParts()) != 2 || !inf.HasSynced() {
			t.Errorf("%d parts, synced %t", len(inf.currentParts()), inf.HasSynced())
		}
		inf.Halt(nil)
		<-inf.done
	})
}

// TestLaterIsDoneOnce: functions deferred until the apply lock is released run once.
func TestLaterIsDoneOnce(t *testing.T) {
	inf := New(Config[settings]{Options: Options{Logger: slog.New(slog.DiscardHandler)}})
	done := 0
	for range 3 {
		inf.apply.Lock()
		if done == 0 {
			inf.deferredCalls.add(func() { done++ })
		}
		inf.unlockApply()
	}
	if done != 1 {
		t.Errorf("done %d times", done)
	}
}

// TestTransformOfALastState: a deletion whose object cannot be decoded comes with the previous
// state, which may have come in the same batch and been transformed there.
func TestTransformOfALastState(t *testing.T) {
	inf := New(Config[settings]{Name: "configmaps", Options: Options{Logger: slog.New(slog.DiscardHandler)}})
	calls := 0
	p := &part[settings]{inf: inf}
	p.transform.fn = func(o settings) (settings, error) {
		calls++
		return o.DeepCopy(), nil
	}
	var deltas []object.Delta[settings]
	for _, i := range []int{1, 2, 1, 3} {
		o := namedSettings(i)
		deltas = append(deltas, object.Delta[settings]{Type: object.Updated, Key: object.KeyOf(o), Object: o})
	}
	last := deltas[2].Object
	deltas = append(deltas, object.Delta[settings]{Type: object.Deleted, Key: deltas[2].Key, Object: last, FinalStateUnknown: true},
		object.Delta[settings]{Type: object.Deleted, Key: object.Key{Name: "4"}, Object: namedSettings(4), FinalStateUnknown: true})
	unknown := deltas[5].Object
	changes := changesOf(deltas...)
	p.transformChanges(changes)
	if calls != 4 || changes[4].Object != changes[2].Object || changes[2].Object == last ||
		changes[5].Object != unknown {
		t.Errorf("%d calls; the deletion has the last transformed state: %t", calls,
			changes[4].Object == changes[2].Object)
	}
}

// TestGuardSamplesSingleChanges, even if changes come one by one.
func TestGuardSamplesSingleChanges(t *testing.T) {
	inf := New(Config[settings]{Name: "configmaps", Options: Options{Logger: slog.New(slog.DiscardHandler)},
		NewSource: func(string) (source.ListerWatcher[settings], error) { return &answering{}, nil }})
	p, err := inf.newTestPart(&saved.File{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * guard.EveryChange {
		o := namedSettings(i % 10)
		o.ResourceVersion = fmt.Sprint(i + 1)
		p.inFlight.opened = append(p.inFlight.opened, o)
		p.Change(changesOf(object.Delta[settings]{Type: object.Updated, Key: object.KeyOf(o), Object: o}),
			o.ResourceVersion)
	}
	if len(p.inFlight.opened) != 0 {
		t.Error("what was opened for a change is kept open")
	}
	if n := inf.guard.sampler.Held(0); n != 3 {
		t.Errorf("%d of %d changes are remembered, want 3", n, 3*guard.EveryChange)
	}
}

// TestHandlerThatNeverRan can be removed at once.
func TestHandlerThatNeverRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := New(Config[settings]{Name: "configmaps", Options: Options{Logger: slog.New(slog.DiscardHandler)}})
		s, err := inf.Subscribe(func(object.Delta[settings]) {}, HandlerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Remove(ctx); err != nil || !usercode.Closed(s.Done()) || len(inf.subscriptions())+len(inf.living()) != 0 {
			t.Errorf("%v, ended %t, %d handlers left", err, usercode.Closed(s.Done()), len(inf.living()))
		}
	})
}

// TestObstacleIsOneToASync: a problem of a namespace that has synced is no obstacle.
func TestObstacleIsOneToASync(t *testing.T) {
	for _, slow := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) {
			inf := New(Config[settings]{
				Name: "configmaps", Namespaces: []string{"a", "b", "c"}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
				NewSource: func(namespace string) (source.ListerWatcher[settings], error) {
					src := &answering{open: errors.New("no watch")}
					if namespace != slow {
						return src, nil
					}
					return listFunc{src, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, nil
				},
			})
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if o := inf.Obstacle(); o.Namespace != slow || o.Problem != nil || o.Progress == "starting" {
				t.Errorf("%+v, want that %s is slow", o, slow)
			}
			inf.Halt(nil)
			<-inf.done
		})
	}
}

// listFunc is a source that does something before each list.
type listFunc struct {
	*answering
	before func(context.Context) error
}

func (l listFunc) List(ctx context.Context, opts source.ListOptions[settings], each func(settings) error) (source.ListResult, error) {
	if err := l.before(ctx); err != nil {
		return source.ListResult{}, err
	}
	return l.answering.List(ctx, opts, each)
}

// TestNamespaceIsNamed in messages if there are several.
func TestNamespaceIsNamed(t *testing.T) {
	for n := 1; n <= 3; n++ {
		synctest.Test(t, func(t *testing.T) {
			inf := New(Config[settings]{
				Name: "configmaps", Namespaces: []string{"a", "b", "c"}[:n], Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
				NewSource: func(string) (source.ListerWatcher[settings], error) {
					return &answering{list: errors.New("no list")}, nil
				},
			})
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for _, p := range inf.currentParts() {
				if got := p.reflectorStatus().Problem.Error(); strings.Contains(got, fmt.Sprintf("in namespace %q", p.namespace)) != (n > 1) {
					t.Errorf("one of %d: %s", n, got)
				}
			}
			inf.Halt(nil)
			<-inf.done
		})
	}
}

// TestObstacleIsAProblemIfThereIsOne: a slow namespace does not hide the problem of another.
func TestObstacleIsAProblemIfThereIsOne(t *testing.T) {
	for _, troubled := range []string{"a", "b", "c"} {
		synctest.Test(t, func(t *testing.T) {
			inf := New(Config[settings]{
				Name: "configmaps", Namespaces: []string{"a", "b", "c"}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
				NewSource: func(namespace string) (source.ListerWatcher[settings], error) {
					return listFunc{&answering{}, func(ctx context.Context) error {
						if namespace == troubled {
							return errors.New("no list")
						}
						<-ctx.Done()
						return ctx.Err()
					}}, nil
				},
			})
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if o := inf.Obstacle(); o.Namespace != troubled || o.Problem == nil {
				t.Errorf("%+v, want the trouble of %s", o, troubled)
			}
			inf.Halt(nil)
			<-inf.done
		})
	}
}

// TestFailedPartsLeaveNothing behind, however often namespaces cannot be added.
func TestFailedPartsLeaveNothing(t *testing.T) {
	for name, pageSize := range map[string]int64{"no source": 0, "bad options": -1} {
		life := newLongLived()
		inf := New(Config[settings]{Name: "configmaps", Options: Options{Logger: slog.New(slog.DiscardHandler), PageSize: pageSize},
			NewSource: func(namespace string) (source.ListerWatcher[settings], error) {
				if namespace == "b" {
					return nil, errors.New("no source")
				}
				return &answering{}, nil
			}})
		inf.life = life
		if _, err := inf.newParts([]string{"a", "b"}); err == nil || life.waiting.Load() != 0 {
			t.Errorf("%s: %v, and %d contexts are left", name, err, life.waiting.Load())
		}
	}
}

// attributed is a log handler that notices being given attributes.
type attributed struct {
	slog.Handler
	noticed func()
}

func (h attributed) WithAttrs([]slog.Attr) slog.Handler {
	h.noticed()
	return h
}

// TestLoggerGetsItsAttributesUnderNoLock: that may run the user's code too.
func TestLoggerGetsItsAttributesUnderNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inf *Informer[settings]
		logger := slog.New(attributed{slog.DiscardHandler, func() {
			if inf != nil && !inf.mu.TryLock() {
				t.Error("the informer's lock is held")
			} else if inf != nil {
				inf.mu.Unlock()
			}
		}})
		inf = New(Config[settings]{Name: "configmaps", Namespaces: []string{"a"}, Options: Options{Logger: logger, NoWatchList: true},
			NewSource: func(string) (source.ListerWatcher[settings], error) { return &answering{}, nil }})
		if err := errors.Join(inf.Start(t.Context()), inf.SetNamespaces(t.Context(), []string{"b"}), inf.Stop(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// TestFileWaitsForNoRoom: a handler may be waiting for the sync that begins with it.
func TestFileWaitsForNoRoom(t *testing.T) {
	both(t, func(t *testing.T, folding bool) {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			inf, pf := newSaved(t, dir, folding)
			fill(inf, 5, 3)
			if err := save(t.Context(), inf, pf); err != nil {
				t.Fatal(err)
			}
			inf, _ = newSaved(t, dir, folding)
			inf.cfg.NoWatchList = true
			inf.cfg.NewSource = func(string) (source.ListerWatcher[settings], error) { return &answering{list: errors.New("down")}, nil }
			s, err := inf.Subscribe(func(object.Delta[settings]) { <-inf.life.Done() }, HandlerOptions{Queue: deltafifo.Options{Policy: deltafifo.Block, Limit: 1}})
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range manySettings(2) {
				s.queue.Add([]object.Delta[settings]{{Type: object.Added, Key: keyOf(i), Object: o}}, "1")
			}
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := inf.store.Snapshot().Len(); n != 5 {
				t.Errorf("%d objects, want the 5 of the file", n)
			}
			if err := inf.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
}
