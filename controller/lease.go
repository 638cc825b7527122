package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// LeaseClient reads and writes the leases of one namespace; client-go's LeaseInterface implements
// it. A call that does not end with its context is abandoned.
type LeaseClient interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// EventRecorder writes Kubernetes events; client-go's record.EventRecorder implements it.
type EventRecorder interface {
	Eventf(obj runtime.Object, eventType, reason, format string, args ...any)
}

// ErrLeaseLost is the cause with which a leader's context ends if its lease could not be renewed in time or was
// taken by another process.
var ErrLeaseLost = errors.New("lease lost")

// maxLeaseDuration is the longest duration that a Lease can hold.
const maxLeaseDuration = math.MaxInt32 * time.Second

// LeaseElector is an Elector that uses a Lease in the API server: a process that writes its
// identity there is the leader for as long as it renews the lease. NewLeaseElector returns one with
// its own client.
//
// Clocks of different machines are never compared. A candidate takes over a lease that has not changed, by the
// candidate's clock, for the whole duration that the leader promised. The leader's time runs from
// before it sent its last successful renewal, and its context ends RenewDeadline later, even if a call to
// the API server hangs. The rest of Duration is for its work to stop before another leader may begin; a fifth of that
// rest is reserved for the process to exit. Suspending the whole machine can violate this, so actions that must never
// happen twice also need the API server's preconditions.
//
// The lease is renewed until the work has ended, even after the context of Lead has ended or the lease was not renewed
// in time. It is only released when all work has ended.
//
// The fields must not change after Lead was called. All methods are safe for concurrent use, but Lead must
// not be called again before it has returned.
type LeaseElector struct {
	// Client, Name and Identity are required: the client for leases, the lease's name, and this process's unique
	// identity, such as the pod's name with a random suffix. The client should not be used for anything else, and have
	// no rate limit: a renewal that waits behind other calls of the process comes too late.
	Client   LeaseClient
	Name     string
	Identity string
	// Duration is how long others wait for a renewal before they take over, in whole seconds. Zero means 15 s.
	Duration time.Duration
	// RenewDeadline is how long the leader continues without a renewal. Zero means two thirds of Duration. A call to
	// the API server fails if there is no response after half of it.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two renewals or attempts to get the lease, plus a random part
	// of up to a fifth of it; a failed renewal is retried after a quarter of it. Zero means a fifth
	// of RenewDeadline.
	RetryPeriod time.Duration
	// Rand returns random numbers in [0,1); nil means math/rand/v2.
	Rand func() float64
	// Events receives an event about the lease when this process becomes leader, and when it stops leading. Nil
	// means none.
	Events EventRecorder
	// Logger receives changes of the leader and errors of calls. Nil means slog.Default().
	Logger *slog.Logger

	mu sync.Mutex
	// lease is the lease as last seen or written; nil if never.
	lease *coordinationv1.Lease
	// seenAt is when lease's holder was last seen to renew it.
	seenAt time.Time
	// leading is set while this process may act.
	leading bool
	stats   LeaseStats
}

// LeaseStats is a LeaseElector's state and its counters.
type LeaseStats struct {
	// Name is the lease's name, Identity this process's identity.
	Name, Identity string
	// Leader is the result of Leader, Leading that of IsLeader.
	Leader  string
	Leading bool
	// Terms is how often this process became leader, Losses how often it lost the lease while leading.
	Terms, Losses uint64
	// Renewals and RenewFailures count a leader's successful and failed attempts to renew the lease.
	Renewals, RenewFailures uint64
	// LastRenewal is when the last successful renewal was sent; zero if this process never led.
	LastRenewal time.Time
}

// Leader returns the identity of the current leader as far as this process knows, or "". It does
// not return this process after it has lost the lease, nor another process that has not renewed the
// lease in time.
func (e *LeaseElector) Leader() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leader()
}

func (e *LeaseElector) leader() string {
	switch h := holder(e.lease); {
	case e.leading:
		return e.Identity
	case h == e.Identity || time.Since(e.seenAt) > e.promisedDuration():
		return ""
	default:
		return h
	}
}

// IsLeader reports whether this process may act: from when it became leader until it has lost the lease or all its work
// has ended.
func (e *LeaseElector) IsLeader() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leading
}

// Stats returns the elector's state and counters.
func (e *LeaseElector) Stats() LeaseStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Name, s.Identity, s.Leader, s.Leading = e.Name, e.Identity, e.leader(), e.leading
	return s
}

// Lead tries to get the lease until ctx ends. When it has the lease, it calls run, once, with a
// context that ends with ctx, or with ErrLeaseLost as its cause if the lease is lost. It renews the
// lease until run has returned.
//
// Then it releases the lease, so that other candidates need not wait; but if run's error is
// ErrStillRunning it lets the lease expire. It returns run's error, joined with ErrLeaseLost if the
// lease was lost.
func (e *LeaseElector) Lead(ctx context.Context, run func(ctx context.Context) error) error {
	el, err := e.newElection()
	if err != nil {
		return err
	}
	renewed, ok := el.acquire(ctx)
	if !ok {
		return nil
	}
	return el.lead(ctx, renewed, run)
}

// newElection validates the fields and fills in defaults.
func (e *LeaseElector) newElection() (*election, error) {
	el := &election{LeaseElector: e, duration: e.duration()}
	el.renewDeadline = cmp.Or(e.RenewDeadline, el.duration*2/3)
	el.retryPeriod = cmp.Or(e.RetryPeriod, el.renewDeadline/5)
	el.callTimeout = el.renewDeadline / 2
	if el.random = e.Rand; el.random == nil {
		el.random = rand.Float64
	}
	el.log = newLogger(e.Logger).With("lease", e.Name, "identity", e.Identity)
	switch {
	case e.Client == nil || e.Name == "" || e.Identity == "":
		return nil, errors.New("lease elector: Client, Name and Identity have to be set")
	case el.duration%time.Second != 0 || el.duration <= 0:
		return nil, fmt.Errorf("lease %s: Duration is %v, want whole seconds, as a Lease holds no others", e.Name, el.duration)
	case el.duration > maxLeaseDuration:
		return nil, fmt.Errorf("lease %s: Duration is %v, want at most %v, as a Lease holds no more", e.Name, el.duration, maxLeaseDuration)
	case el.renewDeadline >= el.duration || el.renewDeadline <= el.retryPeriod*6/5 || el.retryPeriod <= 0:
		return nil, fmt.Errorf("lease %s: want RetryPeriod and a fifth of it < RenewDeadline < Duration, have %v < %v < %v",
			e.Name, el.retryPeriod, el.renewDeadline, el.duration)
	}
	return el, nil
}

func (e *LeaseElector) duration() time.Duration { return cmp.Or(e.Duration, 15*time.Second) }

// observe records the lease. It returns the previous holder, and for how long another process still holds the lease.
func (e *LeaseElector) observe(lease *coordinationv1.Lease) (before string, left time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before = holder(e.lease)
	now := time.Now()
	if e.lease == nil || e.lease.ResourceVersion != lease.ResourceVersion {
		e.lease, e.seenAt = lease, now
	}
	if h := holder(lease); h == "" || h == e.Identity {
		return before, 0
	}
	return before, e.seenAt.Add(e.promisedDuration()).Sub(now)
}

// promisedDuration returns how long others wait for the present holder to renew the lease.
func (e *LeaseElector) promisedDuration() time.Duration {
	promised := e.duration()
	if e.lease != nil && e.lease.Spec.LeaseDurationSeconds != nil {
		promised = max(promised, time.Duration(*e.lease.Spec.LeaseDurationSeconds)*time.Second)
	}
	return promised
}

func (e *LeaseElector) lastLease() *coordinationv1.Lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lease
}

func holder(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
