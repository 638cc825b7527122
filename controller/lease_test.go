package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/testseed"
)

func TestLeaseIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		a := newCandidate(s, "a").start()
		synctest.Wait()
		b := newCandidate(s, "b").start()
		time.Sleep(time.Hour)
		if !a.leads.Load() || b.leads.Load() || b.elector.Leader() != "a" {
			t.Fatalf("a leads: %v, b leads: %v, b knows %q", a.leads.Load(), b.leads.Load(), b.elector.Leader())
		}
		a.stop()
		if err := <-a.done; err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Second) // the retry period and a bit
		if !b.leads.Load() {
			t.Error("b does not lead soon after a released the lease")
		}
		b.stop()
		if err := <-b.done; err != nil {
			t.Error(err)
		}
		if n := *s.lease.Spec.LeaseTransitions; n != 1 {
			t.Errorf("%d transitions", n)
		}
		if holder(s.lease) != "" {
			t.Errorf("the lease is still held by %q", holder(s.lease))
		}
	})
}

// TestLeaseIsGivenBackAfterALostAnswer stops a leader while the response to a renewal is on its way.
func TestLeaseIsGivenBackAfterALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		a := newCandidate(s, "a")
		var delay atomic.Int64
		a.client.delay = func() time.Duration { return time.Duration(delay.Load()) }
		a.start()
		synctest.Wait()
		delay.Store(int64(2 * time.Second))
		time.Sleep(3500 * time.Millisecond) // it was written in second 3, the answer comes in second 4
		a.stop()
		if err := <-a.done; err != nil || holder(s.lease) != "" {
			t.Errorf("%v, held by %q", err, holder(s.lease))
		}
	})
}

func TestKilledLeaderIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		a := newCandidate(s, "a").start()
		synctest.Wait()
		b := newCandidate(s, "b").start()
		time.Sleep(time.Minute)
		a.client.cut.Store(true)
		a.stop()
		<-a.done // which took 10 s, as a tried to give the lease back; 2.4 s before it may have renewed it last
		time.Sleep(2 * time.Second)
		if b.leads.Load() {
			t.Error("b leads before the lease is over")
		}
		time.Sleep(16 * time.Second)
		if !b.leads.Load() {
			t.Error("b does not lead")
		}
		b.stop()
		<-b.done
	})
}

func TestLeaderStopsWhenItCannotRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		a := newCandidate(s, "a").start()
		time.Sleep(time.Minute)
		a.client.cut.Store(true)
		time.Sleep(7 * time.Second)
		if !a.leads.Load() {
			t.Error("a gave up too early")
		}
		time.Sleep(3 * time.Second)
		if a.leads.Load() {
			t.Error("a leads after its deadline")
		}
		if err := <-a.done; !errors.Is(err, ErrLeaseLost) || !errors.Is(a.cause, ErrLeaseLost) {
			t.Errorf("err %v, cause %v", err, a.cause)
		}
	})
}

// TestSlowCallsCountAgainstTheLeader: others see when a claim was written, and that may be long before its
// response arrived.
func TestSlowCallsCountAgainstTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newCandidate(&leaseServer{}, "a")
		a.client.delay = func() time.Duration { return 4 * time.Second }
		a.start()
		time.Sleep(9 * time.Second)
		if !a.leads.Load() {
			t.Error("a does not lead after two calls")
		}
		time.Sleep(1001 * time.Millisecond)
		if a.leads.Load() {
			t.Error("a leads 10 s after it began to ask")
		}
		<-a.done
	})
	synctest.Test(t, func(t *testing.T) {
		a := newCandidate(&leaseServer{}, "a")
		var delay atomic.Int64
		a.client.delay = func() time.Duration { return time.Duration(delay.Load()) }
		a.start()
		synctest.Wait()
		delay.Store(int64(4500 * time.Millisecond))
		time.Sleep(7 * time.Second) // a renewal took from second 2 to 6.5
		a.client.cut.Store(true)
		time.Sleep(4900 * time.Millisecond)
		if !a.leads.Load() {
			t.Error("the renewal does not count")
		}
		time.Sleep(600 * time.Millisecond)
		if a.leads.Load() {
			t.Error("a leads 10 s after it began to renew")
		}
		<-a.done
	})
}

func TestLeaderStopsWhenTheLeaseIsNotItsOwn(t *testing.T) {
	other := "other"
	for name, change := range map[string]func(*coordinationv1.Lease){
		"taken":   func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &other },
		"freed":   func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil },
		"deleted": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &leaseServer{}
				a := newCandidate(s, "a").start()
				time.Sleep(time.Minute)
				s.edit(change)
				time.Sleep(3 * time.Second)
				select {
				case err := <-a.done:
					if !errors.Is(err, ErrLeaseLost) {
						t.Error(err)
					}
				default:
					t.Error("a still leads")
				}
			})
		})
	}
}

func TestLeaderGoesOnWhenOnlyALabelChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		a := newCandidate(s, "a").start()
		for range 5 {
			time.Sleep(time.Minute)
			s.edit(func(l *coordinationv1.Lease) { l.Labels = map[string]string{"edited": "yes"} })
		}
		time.Sleep(time.Minute)
		if !a.leads.Load() {
			t.Error("a does not lead")
		}
		a.stop()
		<-a.done
	})
}

// TestClocksDoNotMatter uses a lease whose times are far off.
func TestClocksDoNotMatter(t *testing.T) {
	for _, skew := range []time.Duration{-1000 * time.Hour, 1000 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			s := &leaseServer{lease: &coordinationv1.Lease{}}
			renewed, other, seconds := metav1.NewMicroTime(time.Now().Add(skew)), "other", int32(60)
			s.edit(func(l *coordinationv1.Lease) {
				l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &other, RenewTime: &renewed, LeaseDurationSeconds: &seconds}
			})
			a := newCandidate(s, "a").start()
			time.Sleep(59 * time.Second)
			if a.leads.Load() {
				t.Error("a leads before the time that the holder was promised")
			}
			time.Sleep(5 * time.Second)
			if !a.leads.Load() {
				t.Error("a does not lead")
			}
			a.stop()
			<-a.done
		})
	}
}

func TestRenewalIsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		a := newCandidate(s, "a")
		var calls atomic.Int64
		a.client.delay = func() time.Duration { calls.Add(1); return 0 }
		a.start()
		time.Sleep(time.Hour)
		a.stop()
		<-a.done
		if legs := int(calls.Load()); legs != 2*(s.updates+1) {
			t.Errorf("%d calls for %d writes", legs/2, s.updates)
		}
	})
}

func TestLeadReturnsTheErrorOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &leaseServer{}
		err := newCandidate(s, "a").elector.Lead(t.Context(), func(context.Context) error { return errBroken })
		if err != errBroken || holder(s.lease) != "" {
			t.Errorf("%v, held by %q", err, holder(s.lease))
		}
	})
}

// TestLeaseElectorDefaults are the times known from client-go.
func TestLeaseElectorDefaults(t *testing.T) {
	e := &LeaseElector{Client: &leaseClient{server: &leaseServer{}}, Name: "demo", Identity: "a"}
	term, err := e.newElection()
	if err != nil || term.duration != 15*time.Second || term.renewDeadline != 10*time.Second || term.retryPeriod != 2*time.Second {
		t.Fatalf("%v < %v < %v, %v", term.retryPeriod, term.renewDeadline, term.duration, err)
	}
	spec := term.claim(&coordinationv1.Lease{}).Spec
	if *spec.LeaseDurationSeconds != 15 || *spec.HolderIdentity != "a" || *spec.LeaseTransitions != 0 || !spec.AcquireTime.Equal(spec.RenewTime) {
		t.Errorf("claimed with %+v", spec)
	}
}

func TestLeaseElectorChecksItsFields(t *testing.T) {
	client := &leaseClient{server: &leaseServer{}}
	for want, e := range map[string]*LeaseElector{
		"have to be set":       {Client: client, Name: "demo"},
		"want whole seconds":   {Client: client, Name: "demo", Identity: "a", Duration: time.Millisecond},
		"15s < 15s":            {Client: client, Name: "demo", Identity: "a", RenewDeadline: 15 * time.Second, RetryPeriod: 15 * time.Second},
		"2s < 20s < 15s":       {Client: client, Name: "demo", Identity: "a", RenewDeadline: 20 * time.Second, RetryPeriod: 2 * time.Second},
		"have -1s < 10s < 15s": {Client: client, Name: "demo", Identity: "a", RetryPeriod: -time.Second},
		"have 9s < 10s < 15s":  {Client: client, Name: "demo", Identity: "a", RetryPeriod: 9 * time.Second},
		"have 10s < 12s < 15s": {Client: client, Name: "demo", Identity: "a", RetryPeriod: 10 * time.Second, RenewDeadline: 12 * time.Second},
		"Duration is 596523h14m8s, want at most 596523h14m7s": {Client: client, Name: "demo", Identity: "a", Duration: 1 << 31 * time.Second},
		"Duration is -1s, want":                               {Client: client, Name: "demo", Identity: "a", Duration: -time.Second},
	} {
		if err := e.Lead(t.Context(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// TestNeverTwoLeaders lets three candidates compete for a lease with calls that are slow, fail, or
// succeed without a response, and with leaders that are disconnected or stopped. There must never
// be two, and in the end there must be one.
func TestNeverTwoLeaders(t *testing.T) {
	testseed.Each(t, 20, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { fightForLease(t, seed) })
	})
}

func fightForLease(t *testing.T, seed uint64) {
	s := &leaseServer{}
	var calm atomic.Bool
	candidates := make([]*candidate, 3)
	turns := 0
	start := func(i int) {
		c := newCandidate(s, fmt.Sprint("candidate-", i, "-", turns))
		turns++
		random := lockedRand(seed, uint64(turns)) // its own, so that a seed repeats a run
		c.elector.Rand = func() float64 { return float64(random(1000)) / 1000 }
		c.client.delay = func() time.Duration {
			if calm.Load() {
				return 0
			}
			return time.Duration(random(4000)) * time.Millisecond * time.Duration(1+random(2)*random(4))
		}
		c.client.fails = func() bool { return !calm.Load() && random(8) == 0 }
		candidates[i] = c.start()
	}
	for i := range candidates {
		start(i)
	}
	replaceEnded := func() {
		for i, c := range candidates {
			select {
			case <-c.done:
				start(i)
			default:
			}
		}
	}
	check := func() (leaders int) {
		for _, c := range candidates {
			if c.leads.Load() {
				leaders++
			}
		}
		if leaders > 1 {
			t.Errorf("%d leaders", leaders)
		}
		return leaders
	}
	number := rand.New(rand.NewPCG(seed, 0)).IntN
	for range 2000 {
		time.Sleep(time.Duration(number(1000)) * time.Millisecond)
		i := number(len(candidates))
		switch c := candidates[i]; {
		case number(60) == 0:
			c.client.cut.Store(true)
		case number(60) == 0:
			c.stop()
		}
		replaceEnded()
		check()
	}
	calm.Store(true)
	for _, c := range candidates {
		c.client.cut.Store(false)
	}
	for range 60 { // some may only now find that they are to stop, or have lost the lease
		time.Sleep(time.Second)
		replaceEnded()
	}
	if check() != 1 {
		t.Error("nobody leads although all is calm")
	}
	for _, c := range candidates {
		c.stop()
		<-c.done
	}
}
