package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LeaseClient reads and writes the leases of one namespace; client-go's LeaseInterface is one. Its calls must end
// with their context.
type LeaseClient interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error)
	Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error)
}

// ErrLeaseLost is the cause with which a leader's context ends when its lease could not be renewed in time or was
// taken by another.
var ErrLeaseLost = errors.New("lease lost")

// LeaseElector is an Elector by way of a Lease in the API server: who writes its name there leads for as long as
// it renews it.
//
// No clock is compared with another machine's. A candidate takes a lease over when it has not seen it change for the
// whole duration that the leader promised, by its own clock. A leader counts the time that it may go on from
// before it sent its last successful renewal, and its context ends after RenewDeadline of it, even if a call to
// the API server hangs. So the work of a leader has Duration minus RenewDeadline to stop before another begins. A
// machine that is suspended as a whole can break this; what must never happen twice needs the API server's
// preconditions besides.
//
// The fields must not change once Lead was called.
type LeaseElector struct {
	// Client, Name and Identity have to be set: the leases' client, the lease's name, and this process's name,
	// which no other may have, such as the pod's name with a random end.
	Client   LeaseClient
	Name     string
	Identity string
	// Duration is how long others wait for a renewal before they take over. Zero means 15 s; whole seconds.
	Duration time.Duration
	// RenewDeadline is how long the leader goes on without a renewal. Zero means two thirds of Duration.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two calls to the API server, plus up to a fifth of it by chance. Zero
	// means a fifth of RenewDeadline.
	RetryPeriod time.Duration
	// Rand returns random numbers in [0,1); nil means the ones of math/rand/v2.
	Rand func() float64
	// Log receives who leads, and why a call failed. Nil means nothing is logged.
	Log *slog.Logger

	mu sync.Mutex
	// lease is the lease as last seen or written; nil if never.
	lease *coordinationv1.Lease
	// seenAt is when lease's holder was last seen to renew it.
	seenAt time.Time
}

// Leader returns the identity that holds the lease as far as this process knows, or "".
func (e *LeaseElector) Leader() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return holder(e.lease)
}

// Lead tries to get the lease until ctx ends, and then calls run, once, with a context that ends with ErrLeaseLost as
// its cause when the lease is lost. When run has returned it gives the lease back, so that another need not
// wait. It returns run's error, and ErrLeaseLost if that was the end.
func (e *LeaseElector) Lead(ctx context.Context, run func(ctx context.Context) error) error {
	t, err := e.term()
	if err != nil {
		return err
	}
	renewed, ok := t.acquire(ctx)
	if !ok {
		return nil
	}
	t.log.Info("leading")
	return t.lead(ctx, renewed, run)
}

// term checks the fields and fills in what is not set.
func (e *LeaseElector) term() (*term, error) {
	t := &term{LeaseElector: e, duration: cmp.Or(e.Duration, 15*time.Second)}
	t.deadline = cmp.Or(e.RenewDeadline, t.duration*2/3)
	t.retry = cmp.Or(e.RetryPeriod, t.deadline/5)
	if t.random = e.Rand; t.random == nil {
		t.random = rand.Float64
	}
	t.log = cmp.Or(e.Log, slog.New(slog.DiscardHandler)).With("lease", e.Name, "identity", e.Identity)
	switch {
	case e.Client == nil || e.Name == "" || e.Identity == "":
		return nil, errors.New("lease elector: Client, Name and Identity have to be set")
	case t.duration%time.Second != 0 || t.duration <= 0:
		return nil, fmt.Errorf("lease %s: Duration is %v, want whole seconds, as a Lease holds no others", e.Name, t.duration)
	case t.deadline >= t.duration || t.deadline <= t.retry*6/5 || t.retry <= 0:
		return nil, fmt.Errorf("lease %s: want RetryPeriod and a fifth of it < RenewDeadline < Duration, have %v < %v < %v",
			e.Name, t.retry, t.deadline, t.duration)
	}
	return t, nil
}

// term is one attempt to lead, from acquiring the lease to giving it back.
type term struct {
	*LeaseElector
	duration, deadline, retry time.Duration
	random                    func() float64
	log                       *slog.Logger
}

// acquire tries to get the lease until ctx ends. It returns the time before the successful call.
func (t *term) acquire(ctx context.Context) (renewed time.Time, ok bool) {
	for {
		renewed = time.Now()
		held, err := t.tryAcquire(ctx)
		switch {
		case ctx.Err() != nil:
			if held {
				t.release(ctx)
			}
			return time.Time{}, false
		case held && time.Since(renewed) < t.deadline:
			return renewed, true
		case err != nil:
			t.log.Warn("cannot get the lease", "error", err)
		}
		if !t.pause(ctx) {
			return time.Time{}, false
		}
	}
}

// lead calls run while renewing the lease, and gives it back.
func (t *term) lead(ctx context.Context, renewed time.Time, run func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fence := time.AfterFunc(t.deadline-time.Since(renewed), func() {
		cancel(fmt.Errorf("%w: not renewed for %v", ErrLeaseLost, t.deadline))
	})
	defer fence.Stop()
	var renewing sync.WaitGroup
	renewing.Go(func() { t.renew(ctx, fence, cancel) })
	err := run(ctx)
	cancel(nil)
	renewing.Wait()
	t.release(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, ErrLeaseLost) {
		return errors.Join(err, fmt.Errorf("lease %s: %w", t.Name, cause))
	}
	return err
}

// renew renews the lease until ctx ends, and each time puts the fence off. It ends ctx when another has the lease.
func (t *term) renew(ctx context.Context, fence *time.Timer, cancel context.CancelCauseFunc) {
	for t.pause(ctx) {
		start := time.Now()
		held, err := t.tryRenew(ctx)
		switch {
		case held:
			if fence.Stop() { // else it is too late: ctx has ended
				fence.Reset(t.deadline - time.Since(start))
			}
		case ctx.Err() != nil:
			return
		case err == nil:
			cancel(fmt.Errorf("%w: its holder is now %q", ErrLeaseLost, t.Leader()))
			return
		default:
			t.log.Warn("cannot renew the lease", "error", err)
		}
	}
}

// pause waits for the retry period and a bit. It returns false if ctx ends first.
func (t *term) pause(ctx context.Context) bool {
	timer := time.NewTimer(t.retry + time.Duration(t.random()*float64(t.retry)/5))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// tryRenew renews the lease as it was last written, which saves reading it; only if that fails, because someone
// has written to it, it reads it. It returns false and no error if the lease is not ours any more. One that was
// freed or deleted is lost too: between that and now there may have been another leader.
func (t *term) tryRenew(ctx context.Context) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.deadline)
	defer cancel()
	held, err = t.write(ctx, t.known())
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return held, err
	}
	lease, err := t.Client.Get(ctx, t.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = &coordinationv1.Lease{}, nil
	}
	if err != nil {
		return false, err
	}
	t.observe(lease)
	if holder(lease) != t.Identity {
		return false, nil
	}
	return t.write(ctx, lease)
}

// tryAcquire reads the lease, and takes it if it is free or ours. It returns false and no error if another has it.
func (t *term) tryAcquire(ctx context.Context) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.deadline)
	defer cancel()
	lease, err := t.Client.Get(ctx, t.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return t.create(ctx)
	}
	if err != nil {
		return false, err
	}
	if left := t.observe(lease); left > 0 {
		return false, nil
	}
	return t.write(ctx, lease)
}

func (t *term) create(ctx context.Context) (held bool, err error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: t.Name}}
	created, err := t.Client.Create(ctx, t.claim(lease), metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	t.observe(created)
	return true, nil
}

// write writes our claim over the lease as we know it: the API server refuses if another was faster.
func (t *term) write(ctx context.Context, lease *coordinationv1.Lease) (held bool, err error) {
	written, err := t.Client.Update(ctx, t.claim(lease), metav1.UpdateOptions{})
	if err != nil {
		return false, err
	}
	t.observe(written)
	return true, nil
}

// claim returns a copy of the lease that says that we have it from now on.
func (t *term) claim(lease *coordinationv1.Lease) *coordinationv1.Lease {
	now := metav1.NewMicroTime(time.Now())
	seconds := int32(t.duration / time.Second)
	claim := lease.DeepCopy()
	if holder(lease) != t.Identity {
		var transitions int32
		if lease.Spec.LeaseTransitions != nil {
			transitions = *lease.Spec.LeaseTransitions + 1
		}
		claim.Spec.HolderIdentity, claim.Spec.AcquireTime = &t.Identity, &now
		claim.Spec.LeaseTransitions = &transitions
	}
	claim.Spec.RenewTime, claim.Spec.LeaseDurationSeconds = &now, &seconds
	return claim
}

// release gives the lease back if it is still ours. The work that it protected has ended.
func (t *term) release(ctx context.Context) {
	lease := t.known()
	if holder(lease) != t.Identity {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.deadline)
	defer cancel()
	err := t.free(ctx, lease)
	if apierrors.IsConflict(err) { // such as with a renewal that was cut off, and was made nevertheless
		if lease, err = t.Client.Get(ctx, t.Name, metav1.GetOptions{}); err == nil {
			err = t.free(ctx, lease)
		}
	}
	if err != nil {
		t.log.Warn("cannot give the lease back; another has to wait for its end", "error", err)
	}
}

// free writes the lease without a holder, unless it is not ours.
func (t *term) free(ctx context.Context, lease *coordinationv1.Lease) error {
	t.observe(lease)
	if holder(lease) != t.Identity {
		return nil
	}
	free := lease.DeepCopy()
	none, second, now := "", int32(1), metav1.NewMicroTime(time.Now())
	free.Spec.HolderIdentity, free.Spec.LeaseDurationSeconds, free.Spec.RenewTime = &none, &second, &now
	written, err := t.Client.Update(ctx, free, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	t.observe(written)
	t.log.Info("gave the lease back")
	return nil
}

// observe remembers the lease, and returns for how long another holder still has it.
func (t *term) observe(lease *coordinationv1.Lease) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.lease == nil || t.lease.ResourceVersion != lease.ResourceVersion {
		if holder(t.lease) != holder(lease) {
			t.log.Debug("the lease has a new holder", "holder", holder(lease))
		}
		t.lease, t.seenAt = lease, now
	}
	if h := holder(lease); h == "" || h == t.Identity {
		return 0
	}
	promised := t.duration
	if s := lease.Spec.LeaseDurationSeconds; s != nil {
		promised = max(promised, time.Duration(*s)*time.Second)
	}
	return t.seenAt.Add(promised).Sub(now)
}

func (t *term) known() *coordinationv1.Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lease
}

func holder(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
