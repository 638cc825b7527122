package promises_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
	"github.com/tidings/tidings/tidingstest"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func numbered(n, value int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("cm-", n)}, Data: map[string]string{"value": fmt.Sprint(value)},
	}
}

// lossy is a source that loses events.
type lossy struct {
	*source.HTTP[*corev1.ConfigMap]
	lose *atomic.Bool // the next event that is not a bookmark
}

func (l lossy) Watch(ctx context.Context, opts source.WatchOptions[*corev1.ConfigMap]) (source.Stream[*corev1.ConfigMap], error) {
	stream, err := l.HTTP.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return lossyStream{stream, l.lose}, nil
}

type lossyStream struct {
	source.Stream[*corev1.ConfigMap]
	lose *atomic.Bool
}

func (s lossyStream) Next(buf []source.Event[*corev1.ConfigMap]) ([]source.Event[*corev1.ConfigMap], error) {
	events, err := s.Stream.Next(nil)
	for _, ev := range events {
		if ev.Type != source.Bookmark && s.lose.CompareAndSwap(true, false) {
			continue
		}
		buf = append(buf, ev)
	}
	return buf, err
}

// audited is an informer of config maps with an audit every minute.
type audited struct {
	server *tidingstest.Server
	inf    *tidings.SharedInformer[*corev1.ConfigMap]
	lose   atomic.Bool
	errs   []*tidings.DivergedError
}

func startAudited(t *testing.T, options tidings.Options, scope tidings.Scope) *audited {
	t.Helper()
	a := &audited{server: tidingstest.NewServer(t, tidingstest.ServerOptions{})}
	client, err := source.NewClient(a.server.Config())
	if err != nil {
		t.Fatal(err)
	}
	options.Audit = time.Minute
	options.OnError = func(err error) {
		if e, ok := errors.AsType[*tidings.DivergedError](err); ok {
			a.errs = append(a.errs, e)
			if r, ok := errors.AsType[*reflector.Error](err); !ok || r.Reason != reflector.Diverged {
				t.Errorf("reported as %v", err)
			}
		}
	}
	factory := tidings.NewSourceFactory(options)
	tidings.SetSource(factory, func(scope tidings.Scope, namespace string) (source.ListerWatcher[*corev1.ConfigMap], error) {
		http, err := source.NewHTTP[*corev1.ConfigMap](client, scope.Source(namespace))
		return lossy{http, &a.lose}, err
	})
	if a.inf, err = tidings.Informer[*corev1.ConfigMap](factory, scope); err != nil {
		t.Fatal(err)
	}
	if err := factory.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := factory.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return a
}

// stop stops the informer, so that nothing changes any more.
func (a *audited) stop(t *testing.T) {
	t.Helper()
	if err := a.inf.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func (a *audited) held() map[object.Key]string {
	held := map[object.Key]string{}
	for o := range a.inf.Lister().All() {
		held[object.KeyOf(o)] = o.ResourceVersion
	}
	return held
}

func (a *audited) sum() (sum tidings.AuditStatus) {
	for _, p := range a.inf.Status().Parts {
		sum.Completed += p.Audit.Completed
		sum.Inconclusive += p.Audit.Inconclusive
		sum.Differences += p.Audit.Differences
		sum.Heals += p.Audit.Heals
	}
	return sum
}

// TestAuditFindsWhatWasLost loses one event of each type, while bookmarks continue as if nothing had happened.
func TestAuditFindsWhatWasLost(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*tidingstest.Server)
		want   tidings.DivergedError
	}{
		"creation": {func(s *tidingstest.Server) { s.Create(numbered(9, 9)) }, tidings.DivergedError{Missing: 1}},
		"update":   {func(s *tidingstest.Server) { s.Update(numbered(1, 9)) }, tidings.DivergedError{Outdated: 1}},
		"deletion": {func(s *tidingstest.Server) { s.Delete(numbered(1, 0)) }, tidings.DivergedError{Extra: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := startAudited(t, tidings.Options{}, tidings.Scope{})
				for i := range 3 {
					a.server.Create(numbered(i, i))
				}
				if err := a.inf.WaitForSync(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // for the events of what was created
				a.lose.Store(true)
				test.change(a.server)
				time.Sleep(5 * time.Minute)
				status := a.inf.Status()
				a.stop(t)
				if want := a.server.Versions(configMaps); !maps.Equal(a.held(), want) {
					t.Errorf("the store has %v, the server %v", a.held(), want)
				}
				if len(a.errs) != 1 || a.errs[0].Missing != test.want.Missing || a.errs[0].Extra != test.want.Extra || a.errs[0].Outdated != test.want.Outdated || len(a.errs[0].First) != 1 {
					t.Errorf("reported %v", a.errs)
				}
				if got := status.Parts[0].Audit; got.Heals != 1 || got.Differences != 1 || got.Completed < 3 || status.NotFresh != nil {
					t.Errorf("status %+v, %v", got, status.NotFresh)
				}
			})
		})
	}
}

// TestAuditOpensNothing: folded objects stay folded.
func TestAuditOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startAudited(t, tidings.Options{MemoryBudget: 1}, tidings.Scope{})
		for i := range 20 {
			a.server.Create(numbered(i, i))
		}
		if err := a.inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		runtime.GC() // or the objects are still open
		before := a.inf.Status()
		time.Sleep(5 * time.Minute)
		after := a.inf.Status()
		a.stop(t)
		if after.Parts[0].Audit.Completed < 3 || before.Parts[0].Audit.Completed > 0 {
			t.Errorf("audits: %+v, and %+v later", before.Parts[0].Audit, after.Parts[0].Audit)
		}
		if after.Memory.Folded != 20 || after.Memory.Opens != before.Memory.Opens {
			t.Errorf("memory %+v, and %+v later", before.Memory, after.Memory)
		}
	})
}

// TestAuditRaisesNoFalseAlarm: while writing to a server with all kinds of faults, no difference is
// reported, and audits do complete.
func TestAuditRaisesNoFalseAlarm(t *testing.T) {
	testseed.Each(t, 4, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			scope := tidings.Scope{}
			if random.IntN(2) == 0 {
				scope.Namespaces = []string{"shop", "other"}
			}
			a := startAudited(t, tidings.Options{NoWatchList: random.IntN(2) == 0, Seed: 1 + seed%100, MemoryBudget: random.Int64N(2)}, scope)
			write(random, a.server, 400, nil)
			time.Sleep(5 * time.Minute)
			sum := a.sum()
			a.stop(t)
			if len(a.errs) > 0 || sum.Differences > 0 || sum.Heals > 0 {
				t.Errorf("false alarms: %v, %+v", a.errs, sum)
			}
			if sum.Completed < 5 {
				t.Errorf("only %d audits compared anything: %+v", sum.Completed, sum)
			}
			if want := a.server.Versions(configMaps); !maps.Equal(a.held(), want) {
				t.Errorf("the store has %v, the server %v", a.held(), want)
			}
		})
	})
}

// TestAuditHealsWhateverIsLost loses events at random: in the end the store matches the server.
func TestAuditHealsWhateverIsLost(t *testing.T) {
	testseed.Each(t, 4, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			a := startAudited(t, tidings.Options{}, tidings.Scope{})
			lost := 0
			write(random, a.server, 300, func() {
				if random.IntN(20) == 0 && a.lose.CompareAndSwap(false, true) {
					lost++
				}
			})
			a.lose.Store(false)
			time.Sleep(10 * time.Minute)
			a.stop(t)
			if want := a.server.Versions(configMaps); !maps.Equal(a.held(), want) {
				t.Errorf("%d events lost, %d reports; the store has %v, the server %v", lost, len(a.errs), a.held(), want)
			}
		})
	})
}

// write writes n times to a server with faults, and calls before ahead of each write.
func write(random *rand.Rand, server *tidingstest.Server, n int, before func()) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	chaos := tidingstest.Chaos{Seed: random.Uint64(), Interval: time.Minute}
	go func() {
		defer close(done)
		server.Disturb(ctx, chaos)
	}()
	known := map[int]bool{}
	for range n {
		time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second))))
		if before != nil {
			before()
		}
		switch i := random.IntN(12); {
		case !known[i]:
			server.Create(numbered(i, random.IntN(1000)))
			known[i] = true
		case random.IntN(3) == 0:
			server.Delete(numbered(i, 0))
			delete(known, i)
		default:
			server.Update(numbered(i, random.IntN(1000)))
		}
	}
	stop()
	<-done
}

// TestAuditAfterRestore restores a backup, and lets the new history pass the old version before the
// reflector checks. That check finds nothing wrong, and objects written before the restore stay in
// the store until the audit repairs it.
func TestAuditAfterRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startAudited(t, tidings.Options{}, tidings.Scope{})
		for i := range 5 {
			a.server.Create(numbered(i, i))
		}
		if err := a.inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		backup := a.server.Snapshot()
		a.server.Update(numbered(0, 100))
		a.server.Delete(numbered(1, 0))
		a.server.Create(numbered(7, 7))
		synctest.Wait()
		a.server.Stop()
		a.server.Restore(backup)
		for i := range 10 {
			a.server.Update(numbered(3, i))
		}
		a.server.Start()
		time.Sleep(10 * time.Minute)
		sum := a.sum()
		a.stop(t)
		if want := a.server.Versions(configMaps); !maps.Equal(a.held(), want) {
			t.Errorf("the store has %v, the server %v; audits %+v", a.held(), want, sum)
		}
		if sum.Heals == 0 {
			t.Errorf("the audit had nothing to heal: %+v", sum)
		}
	})
}

// TestAuditOfOtherSources: a source that does not list at exact versions is not compared with its lists.
func TestAuditOfOtherSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		c.write(newPod("a", "x"))
		inf := start(t, c, tidings.InformerOptions[pod]{Options: tidings.Options{Audit: time.Minute}})
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			c.write(newPod("a", "x"))
			time.Sleep(10 * time.Second)
		}
		if got := inf.Status().Parts[0].Audit; got.Differences != 0 || got.Completed+got.Inconclusive < 10 {
			t.Errorf("got %+v", got)
		}
	})
}

// selective is a source that embeds one of ours and hides some of its objects.
type selective struct {
	*source.HTTP[*corev1.ConfigMap]
}

func hidden(cm *corev1.ConfigMap) bool { return cm.Labels["hidden"] != "" }

func (s selective) List(
	ctx context.Context, opts source.ListOptions[*corev1.ConfigMap], each func(*corev1.ConfigMap) error,
) (source.ListResult, error) {
	return s.HTTP.List(ctx, opts, func(cm *corev1.ConfigMap) error {
		if hidden(cm) {
			return nil
		}
		return each(cm)
	})
}

func (s selective) Watch(
	ctx context.Context, opts source.WatchOptions[*corev1.ConfigMap],
) (source.Stream[*corev1.ConfigMap], error) {
	stream, err := s.HTTP.Watch(ctx, opts)
	return selectiveStream{stream}, err
}

type selectiveStream struct {
	source.Stream[*corev1.ConfigMap]
}

func (s selectiveStream) Next(
	buf []source.Event[*corev1.ConfigMap],
) ([]source.Event[*corev1.ConfigMap], error) {
	events, err := s.Stream.Next(nil)
	for _, ev := range events {
		if ev.Object == nil || !hidden(ev.Object) {
			buf = append(buf, ev)
		}
	}
	return buf, err
}

// TestAuditOfASourceThatEmbedsOurs compares with what the source lists, not with what the embedded one would.
func TestAuditOfASourceThatEmbedsOurs(t *testing.T) {
	recorder, err := recording.NewRecorder(io.Discard, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, recorder := range map[string]*recording.Recorder{"alone": nil, "recorded": recorder} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
				client, err := source.NewClient(server.Config())
				if err != nil {
					t.Fatal(err)
				}
				unseen := numbered(1, 0)
				unseen.Labels = map[string]string{"hidden": "yes"}
				server.Load(numbered(0, 0), unseen)
				factory := tidings.NewSourceFactory(tidings.Options{
					Audit: time.Minute, Recorder: recorder, OnError: func(err error) { t.Error(err) },
				})
				tidings.SetSource(factory, func(scope tidings.Scope, namespace string) (
					source.ListerWatcher[*corev1.ConfigMap], error,
				) {
					http, err := source.NewHTTP[*corev1.ConfigMap](client, scope.Source(namespace))
					return selective{http}, err
				})
				inf, err := tidings.Informer[*corev1.ConfigMap](factory, tidings.Scope{})
				if err != nil {
					t.Fatal(err)
				}
				if err := factory.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				audit, n := inf.Status().Parts[0].Audit, inf.Snapshot().Len()
				if err := factory.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
				if audit.Differences != 0 || audit.Completed == 0 || n != 1 {
					t.Errorf("%d objects, audit %+v", n, audit)
				}
			})
		})
	}
}
