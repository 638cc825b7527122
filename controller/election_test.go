package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings/object"
)

// TestLeaseIsRenewedWhileWorkEnds stops a leader whose work takes much longer than the lease to end.
func TestLeaseIsRenewedWhileWorkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		a := newCandidate(s, "a")
		a.lingers = 2 * time.Minute
		a.start()
		synctest.Wait()
		b := newCandidate(s, "b").start()
		time.Sleep(time.Minute)
		a.stop()
		for range 119 {
			time.Sleep(time.Second)
			if b.leads.Load() || !a.elector.IsLeader() || b.elector.Leader() != "a" {
				t.Fatalf("b leads: %v, a is leader: %v, b knows %q", b.leads.Load(), a.elector.IsLeader(), b.elector.Leader())
			}
		}
		if err := <-a.done; err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Second)
		if !b.leads.Load() || a.elector.IsLeader() {
			t.Errorf("b leads: %v, a is leader: %v", b.leads.Load(), a.elector.IsLeader())
		}
		b.stop()
		<-b.done
	})
}

// TestLeaseIsNotGivenBackWhileWorkRuns has a reconcile that ignores the end of its context: the lease has to expire.
func TestLeaseIsNotGivenBackWhileWorkRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		release := make(chan struct{})
		defer close(release)
		elector := newCandidate(s, "a").elector
		stop := running(t, managerWith(elector, func(context.Context, object.Key) (Result, error) {
			<-release
			return Result{}, nil
		}))
		synctest.Wait()
		b := newCandidate(s, "b").start()
		time.Sleep(time.Minute)
		if err := stop(); !errors.Is(err, ErrStillRunning) || errors.Is(err, ErrLeaseLost) {
			t.Error(err)
		}
		if elector.IsLeader() || elector.Leader() != "" {
			t.Errorf("after its end the leader is %q", elector.Leader())
		}
		time.Sleep(12 * time.Second)
		if b.leads.Load() {
			t.Error("b leads before the lease is over")
		}
		time.Sleep(8 * time.Second) // b may see the last renewal 2.4 s late, and the end of the lease as well
		if !b.leads.Load() {
			t.Error("b does not lead")
		}
		b.stop()
		<-b.done
	})
}

// managerWith returns a manager with one controller, which has one key to reconcile.
func managerWith(e Elector, reconcile Reconciler) *Manager {
	c := New("test", reconcile, Options{Logger: slog.New(slog.DiscardHandler)})
	c.Enqueue(key("a"))
	m := NewManager(e)
	m.Add(c)
	return m
}

// TestLoserStopsWithinItsLease disconnects a leader whose reconcile ignores the end of its context,
// before and after it was told to stop: Run has to return before another may lead, so that the
// process can exit.
func TestLoserStopsWithinItsLease(t *testing.T) {
	for name, stopAfter := range map[string]time.Duration{"leading": time.Hour, "stopping": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &leaseServer{}
				release := make(chan struct{})
				defer close(release)
				a := newCandidate(s, "a")
				m := managerWith(a.elector, func(context.Context, object.Key) (Result, error) {
					<-release
					return Result{}, nil
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan error, 1)
				go func() { done <- m.Run(ctx) }()
				time.Sleep(time.Minute)
				b := newCandidate(s, "b").start()
				a.client.cut.Store(true)
				renewed := a.elector.Stats().LastRenewal
				time.AfterFunc(stopAfter, cancel)
				err := <-done
				if took := time.Since(renewed); took < 13*time.Second || took > 14*time.Second {
					t.Errorf("stopped %v after the last renewal", took)
				}
				if !errors.Is(err, ErrStillRunning) || !errors.Is(err, ErrLeaseLost) {
					t.Error(err)
				}
				if b.leads.Load() {
					t.Error("b leads already")
				}
				b.stop()
				<-b.done
			})
		})
	}
}

// TestRobbedLeaderStopsAtOnce gives the lease of a leader whose reconcile ignores the end of its context to another.
func TestRobbedLeaderStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		release := make(chan struct{})
		defer close(release)
		m := managerWith(newCandidate(s, "a").elector, func(context.Context, object.Key) (Result, error) {
			<-release
			return Result{}, nil
		})
		done := make(chan error, 1)
		go func() { done <- m.Run(t.Context()) }()
		time.Sleep(time.Minute)
		other := "other"
		s.edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &other })
		start := time.Now()
		err := <-done
		if took := time.Since(start); !errors.Is(err, ErrStillRunning) || !errors.Is(err, ErrLeaseLost) || took > 2400*time.Millisecond+takenGrace {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// TestRobbedWhileStopping does so after the leader was told to stop.
func TestRobbedWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		release := make(chan struct{})
		defer close(release)
		stop := running(t, managerWith(newCandidate(s, "a").elector, func(context.Context, object.Key) (Result, error) {
			<-release
			return Result{}, nil
		}))
		time.Sleep(time.Minute)
		start, other := time.Now(), "other"
		time.AfterFunc(time.Second, func() {
			s.edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &other })
		})
		err := stop()
		took := time.Since(start)
		if !errors.Is(err, ErrStillRunning) || !errors.Is(err, ErrLeaseLost) || took > 3400*time.Millisecond+takenGrace {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// TestFailedRenewalIsTriedAgainSoon rejects all calls of a leader immediately.
func TestFailedRenewalIsTriedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newCandidate(&leaseServer{}, "a")
		var down atomic.Bool
		a.client.fails = down.Load
		a.start()
		time.Sleep(time.Minute)
		down.Store(true)
		if err := <-a.done; !errors.Is(err, ErrLeaseLost) {
			t.Error(err)
		}
		if n := a.elector.Stats().RenewFailures; n < 12 || n > 20 {
			t.Errorf("%d attempts in about 8 s", n)
		}
	})
}

// TestLoserIsNoLeaderWhileItStops checks while the work of a disconnected leader is ending.
func TestLoserIsNoLeaderWhileItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newCandidate(&leaseServer{}, "a")
		a.lingers = 3 * time.Second
		a.start()
		time.Sleep(time.Minute)
		a.client.cut.Store(true)
		time.Sleep(10 * time.Second)
		if !a.leads.Load() || a.elector.IsLeader() || a.elector.Leader() != "" {
			t.Errorf("works: %v, is leader: %v, knows %q", a.leads.Load(), a.elector.IsLeader(), a.elector.Leader())
		}
		<-a.done
	})
}

// TestLeaderTellsTheTruth checks who leads after the leader was disconnected, on both sides.
func TestLeaderTellsTheTruth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		a := newCandidate(s, "a").start()
		synctest.Wait()
		b := newCandidate(s, "b")
		expect := func(when, aKnows, bKnows string, aLeads bool) {
			t.Helper()
			if a.elector.Leader() != aKnows || b.elector.Leader() != bKnows || a.elector.IsLeader() != aLeads {
				t.Errorf("%s: a knows %q, b knows %q, a is leader: %v", when, a.elector.Leader(), b.elector.Leader(), a.elector.IsLeader())
			}
		}
		expect("at the start", "a", "", true)
		b.start()
		time.Sleep(time.Minute)
		expect("while a leads", "a", "a", true)
		a.client.cut.Store(true)
		b.client.cut.Store(true)
		time.Sleep(10 * time.Second) // a gave up by now; b may have seen the lease up to 4.8 s before the cut, and trusts it for 15
		expect("after the loss", "", "a", false)
		time.Sleep(7 * time.Second)
		expect("after the lease", "", "", false)
		if st := a.elector.Stats(); st.Terms != 1 || st.Losses != 1 || st.Leading || st.Leader != "" || st.Name != "demo" ||
			st.Identity != "a" || st.Renewals < 20 || st.RenewFailures == 0 || st.LastRenewal.IsZero() {
			t.Errorf("%+v", st)
		}
		if err := <-a.done; !errors.Is(err, ErrLeaseLost) {
			t.Error(err)
		}
		b.stop()
		<-b.done
	})
}

// TestOneLostCallDoesNotLoseTheLease lets a call hang until it times out, sometimes before and
// sometimes after it took effect.
func TestOneLostCallDoesNotLoseTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		a := newCandidate(s, "a")
		var calls atomic.Int64
		a.client.delay = func() time.Duration {
			if calls.Add(1)%9 == 0 {
				return time.Hour
			}
			return 100 * time.Millisecond
		}
		a.start()
		time.Sleep(time.Hour)
		if !a.leads.Load() {
			t.Errorf("a lost its lease: %v", <-a.done)
		}
		if a.elector.Stats().RenewFailures < 100 {
			t.Errorf("%+v", a.elector.Stats())
		}
		a.stop()
		<-a.done
	})
}

// strangeClient is a LeaseClient that misbehaves in each call once it is told to.
type strangeClient struct {
	LeaseClient
	strange atomic.Pointer[func()]
}

func (c *strangeClient) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if strange := c.strange.Load(); strange != nil {
		(*strange)()
		return nil, nil
	}
	return c.LeaseClient.Update(ctx, lease, o)
}

// TestClientThatMisbehaves uses clients that ignore their context, panic, or return nothing: the leader has to stop
// in time.
func TestClientThatMisbehaves(t *testing.T) {
	release := make(chan struct{})
	for name, strange := range map[string]func(){
		"hangs":           func() { <-release },
		"panics":          func() { panic("no") },
		"returns nothing": func() {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release = make(chan struct{})
				defer close(release)
				a := newCandidate(&leaseServer{}, "a")
				client := &strangeClient{LeaseClient: a.client}
				a.elector.Client = client
				a.start()
				time.Sleep(time.Minute)
				client.strange.Store(&strange)
				start := time.Now()
				err := <-a.done
				if took := time.Since(start); !errors.Is(err, ErrLeaseLost) || took > 15*time.Second {
					t.Errorf("after %v: %v", took, err)
				}
			})
		})
	}
}

// TestRunThatPanics leaves nothing behind that would renew the lease.
func TestRunThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		a := newCandidate(s, "a")
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is gone")
				}
			}()
			_ = a.elector.Lead(t.Context(), func(context.Context) error { panic(errBroken) })
		}()
		if a.elector.IsLeader() {
			t.Error("still the leader after the panic")
		}
		before := s.writes()
		time.Sleep(time.Minute)
		if s.writes() != before || a.elector.IsLeader() {
			t.Errorf("%d renewals, is leader: %v", s.writes()-before, a.elector.IsLeader())
		}
	})
}

// events records its calls, asks who leads, and then panics.
type events struct {
	elector *LeaseElector
	got     []string
}

func (e *events) Eventf(obj runtime.Object, eventType, reason, format string, args ...any) {
	lease := obj.(*coordinationv1.Lease)
	e.got = append(e.got, strings.Join([]string{lease.Kind, lease.APIVersion, lease.Name, eventType, reason, fmt.Sprintf(format, args...)}, " "))
	e.elector.Leader()
	panic("no")
}

func TestElectionEventsAndLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		var e events
		var logA, logB logText
		a, b := newCandidate(s, "a"), newCandidate(s, "b")
		e.elector = a.elector
		a.elector.Events, a.elector.Logger = &e, slog.New(slog.NewTextHandler(&logA, nil))
		b.elector.Logger = slog.New(slog.NewTextHandler(&logB, nil))
		a.start()
		synctest.Wait()
		b.start()
		time.Sleep(time.Minute)
		a.stop()
		<-a.done
		b.stop()
		<-b.done
		want := []string{
			"Lease coordination.k8s.io/v1 demo Normal LeaderElection a became leader",
			"Lease coordination.k8s.io/v1 demo Normal LeaderElection a stopped leading",
		}
		if !slices.Equal(e.got, want) {
			t.Errorf("events %q", e.got)
		}
		for _, want := range []string{"msg=leading", `msg="stopped leading"`, `msg="released the lease"`} {
			if !strings.Contains(logA.String(), want) {
				t.Errorf("%s is not in the leader's log:\n%s", want, logA.String())
			}
		}
		if want := `msg="another process leads" lease=demo identity=b leader=a`; strings.Count(logB.String(), want) != 1 {
			t.Errorf("%s is not once in the candidate's log:\n%s", want, logB.String())
		}
		for log, panics := range map[*logText]int{&logA: 2, &logB: 0} { // of the function that records events
			text := log.String()
			if strings.Count(text, `level=ERROR msg="writing an event panicked"`) != panics || strings.Count(text, "level=ERROR") != panics || strings.Contains(text, "level=WARN") {
				t.Errorf("the log has other than %d panics of events:\n%s", panics, text)
			}
		}
	})
}

// leaseEvents records which objects its events are about.
type leaseEvents struct{ about []string }

func (e *leaseEvents) Eventf(obj runtime.Object, _, _, format string, args ...any) {
	lease := obj.(*coordinationv1.Lease)
	e.about = append(e.about, fmt.Sprintf("%s/%s %s: ", lease.Namespace, lease.Name, lease.UID)+fmt.Sprintf(format, args...))
}

// TestEventsOfADeletedLease: the event about the end of a term names the lease, even if the lease is gone.
func TestEventsOfADeletedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{lease: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "demo", UID: "uid-1"}}}
		var e leaseEvents
		a := newCandidate(s, "a")
		a.elector.Events = &e
		a.start()
		time.Sleep(time.Minute)
		s.edit(nil)
		if err := <-a.done; !errors.Is(err, ErrLeaseLost) {
			t.Error(err)
		}
		if want := []string{"shop/demo uid-1: a became leader", "shop/demo uid-1: a stopped leading"}; !slices.Equal(e.about, want) {
			t.Errorf("events %q, want %q", e.about, want)
		}
	})
}

// TestTurnIsOverBeforeTheLeaseIsGivenBack: this process is not reported as leader while another may have begun.
func TestTurnIsOverBeforeTheLeaseIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newCandidate(&leaseServer{}, "a")
		ended, calls := false, 0
		a.client.fails = func() bool {
			if ended {
				if calls++; a.elector.IsLeader() || a.elector.Stats().Leading {
					t.Error("it counts as the leader while it gives the lease back")
				}
			}
			return false
		}
		err := a.elector.Lead(t.Context(), func(context.Context) error {
			if st := a.elector.Stats(); !st.Leading || st.Terms != 1 || !st.LastRenewal.Equal(time.Now()) {
				t.Errorf("in the beginning: %+v", st)
			}
			ended = true
			return nil
		})
		if err != nil || calls == 0 {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
}

// TestLossesAreLogged: the log says why the lease was lost, is not released, or cannot be released.
func TestLossesAreLogged(t *testing.T) {
	for want, do := range map[string]func(a *candidate) error{
		`level=ERROR msg="lost the lease, stopping" lease=demo identity=a error="lease lost: not renewed for 10s"`: func(a *candidate) error {
			a.start()
			time.Sleep(time.Minute)
			a.client.cut.Store(true)
			time.Sleep(time.Minute)
			a.stop()
			<-a.done
			return nil
		},
		`level=WARN msg="cannot renew the lease" lease=demo identity=a error=`: func(a *candidate) error {
			a.start()
			time.Sleep(time.Minute)
			a.client.cut.Store(true)
			time.Sleep(3 * time.Second) // one call gets no answer
			a.client.cut.Store(false)
			time.Sleep(time.Minute)
			a.stop()
			return <-a.done
		},
		`level=WARN msg="work is still running, so the lease is not released" lease=demo identity=a error="work is still running"`: func(a *candidate) error {
			err := a.elector.Lead(context.Background(), func(context.Context) error { return ErrStillRunning })
			if errors.Is(err, ErrStillRunning) {
				err = nil
			}
			return err
		},
		`level=WARN msg="cannot release the lease; other candidates have to wait until it expires" lease=demo identity=a error=broken`: func(a *candidate) error {
			return a.elector.Lead(context.Background(), func(context.Context) error {
				a.client.fails = func() bool { return true }
				return nil
			})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log logText
			a := newCandidate(&leaseServer{}, "a")
			a.elector.Logger = slog.New(slog.NewTextHandler(&log, nil))
			if err := do(a); err != nil {
				t.Error(err)
			}
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s is not in the log:\n%s", want, log.String())
			}
		})
	}
}

// TestFailedCandidateSaysWhy: a candidate that cannot get the lease because its calls fail logs why, and keeps trying.
func TestFailedCandidateSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		var fails atomic.Bool
		a := newCandidate(&leaseServer{}, "a")
		fails.Store(true)
		a.client.fails = fails.Load
		a.elector.Logger = slog.New(slog.NewTextHandler(&log, nil))
		a.start()
		time.Sleep(time.Minute)
		if want := `msg="cannot get the lease" lease=demo identity=a error=broken`; !strings.Contains(log.String(), want) || a.leads.Load() {
			t.Errorf("%s is not in the log:\n%s", want, log.String())
		}
		fails.Store(false)
		time.Sleep(time.Minute)
		if !a.leads.Load() {
			t.Error("the candidate has given up")
		}
		a.stop()
		if err := <-a.done; err != nil {
			t.Error(err)
		}
	})
}

// TestUnsyncedManagerDoesNotCompete has a free lease, and a manager whose cache is not in sync.
func TestUnsyncedManagerDoesNotCompete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		cache := newPodCache(newServer())
		cache.synced = make(chan struct{})
		c := New("test", succeed, Options{SyncTimeout: time.Hour})
		Watch(c, cache, Self[*corev1.Pod])
		m := NewManager(newCandidate(s, "a").elector)
		m.Add(c)
		stop := running(t, m)
		time.Sleep(30 * time.Minute)
		if s.holder() != "" {
			t.Errorf("the lease is held by %q", s.holder())
		}
		if err := Use(c, cache); !errors.Is(err, ErrStarted) {
			t.Errorf("Use while the manager waits: %v", err)
		}
		close(cache.synced)
		time.Sleep(time.Minute)
		if s.holder() != "a" {
			t.Error("the manager does not lead once its cache is in sync")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		cache := newPodCache(newServer())
		cache.synced = make(chan struct{})
		c := New("test", succeed, Options{})
		Use(c, cache)
		m := NewManager(newCandidate(s, "a").elector)
		m.Add(c)
		err := m.Run(t.Context())
		want := "controller test: pods: forbidden: grant list and watch: not in sync after 2m0s"
		if err == nil || err.Error() != want || s.holder() != "" || s.writes() != 0 {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	})
}

// TestClaimThatWasCutOffIsGivenBack stops a candidate while the response to its claim is on its way.
func TestClaimThatWasCutOffIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		a := newCandidate(s, "a")
		a.client.delay = func() time.Duration { return 2 * time.Second }
		a.start()
		time.Sleep(3500 * time.Millisecond) // read in second 1, created in second 3
		if s.holder() != "a" || a.leads.Load() {
			t.Fatal("the claim is not under way")
		}
		a.stop()
		if err := <-a.done; err != nil || s.holder() != "" {
			t.Errorf("%v, held by %q", err, s.holder())
		}
	})
}

// TestClaimThatWasCutOffAndOvertaken: by the time the candidate releases its claim, another has the
// lease; that one keeps it, and the candidate notices.
func TestClaimThatWasCutOffAndOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		a := newCandidate(s, "a")
		a.client.delay = func() time.Duration { return 2 * time.Second }
		a.start()
		time.Sleep(3500 * time.Millisecond) // read in second 1, created in second 3
		a.stop()
		s.edit(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("b") })
		if err := <-a.done; err != nil || s.holder() != "b" || a.elector.Leader() != "b" {
			t.Errorf("%v, held by %q, and the candidate knows of %q", err, s.holder(), a.elector.Leader())
		}
	})
}

// TestClaimWithoutAnAnswerIsGivenBack stops a candidate that does not know whether its claim took
// effect, before it retries.
func TestClaimWithoutAnAnswerIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		a := newCandidate(s, "a")
		legs := 0
		a.client.fails = func() bool { legs++; return legs == 4 } // the way back of the second call, which creates the lease
		a.start()
		time.Sleep(time.Second)
		if s.holder() != "a" || a.leads.Load() {
			t.Fatalf("held by %q after %d legs", s.holder(), legs)
		}
		a.stop()
		if err := <-a.done; err != nil || s.holder() != "" {
			t.Errorf("%v, held by %q", err, s.holder())
		}
	})
}
