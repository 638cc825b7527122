package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// election is one call of Lead, from acquiring the lease to releasing it.
type election struct {
	*LeaseElector
	duration, renewDeadline, retryPeriod, callTimeout time.Duration
	random                                            func() float64
	log                                               *slog.Logger
	// claimUnknown is set if the outcome of the last claim is unknown. Only the goroutine that makes the calls uses it.
	claimUnknown bool
}

// acquire tries to get the lease until ctx ends. It returns the time right before the successful call.
func (e *election) acquire(ctx context.Context) (renewed time.Time, ok bool) {
	for {
		renewed = time.Now()
		held, err := e.tryAcquire(ctx)
		switch {
		case ctx.Err() != nil:
			e.release(ctx)
			return time.Time{}, false
		case held && time.Since(renewed) < e.renewDeadline:
			return renewed, true
		case err != nil:
			e.log.Warn("cannot get the lease", "error", err)
		}
		if !e.pause(ctx, e.retryPeriod) {
			e.release(ctx)
			return time.Time{}, false
		}
	}
}

// term is the part of an election in which this process leads.
type term struct {
	*election
	leaseDeadline *leaseDeadline
	cancel        context.CancelCauseFunc // of the work's context
	expiry        *time.Timer             // ends the term if the lease is not renewed

	once  sync.Once
	loss  error // set once leaseDeadline.lost is closed
	ended bool
}

// takenGrace is how long a leader's work may take to end after another process has taken the lease.
const takenGrace = time.Second

// lead calls run while renewing the lease, and releases it afterwards.
func (e *election) lead(ctx context.Context, renewed time.Time, run func(ctx context.Context) error) error {
	runCtx, t := e.begin(ctx, renewed)
	defer t.end()
	renewCtx, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	var renewing sync.WaitGroup
	defer renewing.Wait() // also when run panics
	defer stopRenewing()
	renewing.Go(func() { t.renew(renewCtx) })
	err := run(runCtx)
	stopRenewing()
	renewing.Wait()
	t.end()
	if errors.Is(err, ErrStillRunning) {
		e.log.Warn("work is still running, so the lease is not released", "error", err)
	} else {
		e.release(ctx)
	}
	select {
	case <-t.leaseDeadline.lost:
		return errors.Join(err, fmt.Errorf("lease %s: %w", e.Name, t.loss))
	default:
		return err
	}
}

// begin starts the term, and returns the context for its work.
func (e *election) begin(ctx context.Context, renewed time.Time) (context.Context, *term) {
	t := &term{election: e, leaseDeadline: &leaseDeadline{lost: make(chan struct{})}}
	ctx, t.cancel = context.WithCancelCause(withLeaseDeadline(ctx, t.leaseDeadline))
	t.mu.Lock()
	t.leading = true
	t.stats.Terms++
	t.mu.Unlock()
	t.noteRenewal(renewed)
	t.expiry = time.AfterFunc(e.renewDeadline-time.Since(renewed), func() {
		t.lose(fmt.Errorf("%w: not renewed for %v", ErrLeaseLost, e.renewDeadline))
	})
	e.log.Info("leading")
	e.event("became leader")
	return ctx, t
}

// end ends the term, if it has not ended yet.
func (t *term) end() {
	t.cancel(nil)
	t.expiry.Stop()
	t.mu.Lock()
	ended := t.ended
	t.ended, t.leading = true, false
	t.mu.Unlock()
	if !ended {
		t.log.Info("stopped leading")
		t.event("stopped leading")
	}
}

// lose ends the work's context: the lease is lost, or may soon be.
func (t *term) lose(why error) {
	t.once.Do(func() {
		t.mu.Lock()
		t.leading = false
		t.stats.Losses++
		t.mu.Unlock()
		t.loss = why
		close(t.leaseDeadline.lost) // before the work can end, so that lead returns the reason
		t.cancel(why)
		t.log.Error("lost the lease, stopping", "error", why)
	})
}

// noteRenewal records that the lease was renewed by a call that began at the given time.
func (t *term) noteRenewal(at time.Time) {
	t.mu.Lock()
	t.stats.LastRenewal = at
	t.mu.Unlock()
	t.leaseDeadline.setUntil(at.Add(t.duration - (t.duration-t.renewDeadline)/5))
}

// renew renews the lease until ctx ends or another process has it, and resets the expiry timer each time. When that
// has ended the work's context, renew continues until the work has ended, to keep others from taking over.
func (t *term) renew(ctx context.Context) {
	wait := t.retryPeriod
	for t.pause(ctx, wait) {
		start := time.Now()
		held, err := t.tryRenew(ctx)
		if ctx.Err() != nil && !held {
			return
		}
		t.countRenewal(held)
		switch {
		case held:
			wait = t.retryPeriod
			t.noteRenewal(start)
			if t.expiry.Stop() { // otherwise it is too late: the work's context has ended
				t.expiry.Reset(t.renewDeadline - time.Since(start))
			}
		case err == nil:
			t.leaseDeadline.setUntil(t.leaseDeadline.limit(time.Now().Add(takenGrace)))
			t.lose(fmt.Errorf("%w: its holder is now %q", ErrLeaseLost, holder(t.lastLease())))
			return
		default:
			wait = t.retryPeriod / 4
			t.log.Warn("cannot renew the lease", "error", err)
		}
	}
}

func (t *term) countRenewal(held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if held {
		t.stats.Renewals++
	} else {
		t.stats.RenewFailures++
	}
}

// pause waits for d and up to a fifth more. It returns false if ctx ends first.
func (e *election) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d + time.Duration(e.random()*float64(d)/5))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// tryRenew renews the lease as it was last written, without reading it first; only if that fails because someone
// has written to it does it read it. It returns false and no error if the lease is not ours any more. A lease that was
// released or deleted is lost as well, since there may have been another leader in the meantime.
func (e *election) tryRenew(ctx context.Context) (held bool, err error) {
	held, err = e.write(ctx, e.lastLease())
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return held, err
	}
	lease, err := e.get(ctx)
	if apierrors.IsNotFound(err) {
		lease, err = e.lastLease().DeepCopy(), nil
		lease.ResourceVersion, lease.Spec = "", coordinationv1.LeaseSpec{} // events still name it
	}
	if err != nil {
		return false, err
	}
	e.observe(lease)
	if holder(lease) != e.Identity {
		return false, nil
	}
	return e.write(ctx, lease)
}

// tryAcquire reads the lease, and takes it if it is free or ours. It returns false and no error if
// another process has it.
func (e *election) tryAcquire(ctx context.Context) (held bool, err error) {
	lease, err := e.get(ctx)
	if apierrors.IsNotFound(err) {
		return e.create(ctx)
	}
	if err != nil {
		return false, err
	}
	if left := e.observe(lease); left > 0 {
		return false, nil
	}
	return e.write(ctx, lease)
}

// observe records the lease and logs a new leader. It returns for how long another process still holds the lease.
func (e *election) observe(lease *coordinationv1.Lease) time.Duration {
	before, left := e.LeaseElector.observe(lease)
	if h := holder(lease); h != before && h != e.Identity && h != "" {
		e.log.Info("another process leads", "leader", h)
	}
	return left
}

func (e *election) create(ctx context.Context) (held bool, err error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: e.Name}}
	return e.send(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return e.Client.Create(ctx, e.claim(lease), metav1.CreateOptions{})
	})
}

// write writes our claim to the lease as we know it; the API server rejects it if another process was faster.
func (e *election) write(ctx context.Context, lease *coordinationv1.Lease) (held bool, err error) {
	return e.send(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return e.Client.Update(ctx, e.claim(lease), metav1.UpdateOptions{})
	})
}

// send sends a claim.
func (e *election) send(ctx context.Context, claim func(context.Context) (*coordinationv1.Lease, error)) (held bool, err error) {
	written, err := e.call(ctx, claim)
	e.claimUnknown = err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err)
	if err != nil {
		return false, err
	}
	e.observe(written)
	return true, nil
}

// claim returns a copy of the lease with this process as its holder from now on.
func (e *election) claim(lease *coordinationv1.Lease) *coordinationv1.Lease {
	now := metav1.NewMicroTime(time.Now())
	seconds := int32(e.duration / time.Second)
	claim := lease.DeepCopy()
	if holder(lease) != e.Identity {
		var transitions int32
		if lease.Spec.LeaseTransitions != nil {
			transitions = *lease.Spec.LeaseTransitions + 1
		}
		claim.Spec.HolderIdentity, claim.Spec.AcquireTime = &e.Identity, &now
		claim.Spec.LeaseTransitions = &transitions
	}
	claim.Spec.RenewTime, claim.Spec.LeaseDurationSeconds = &now, &seconds
	return claim
}

// release releases the lease if it is or may be ours. The work that it protects must have ended.
func (e *election) release(ctx context.Context) {
	if holder(e.lastLease()) != e.Identity && !e.claimUnknown {
		return
	}
	ctx = context.WithoutCancel(ctx)
	lease, err := e.lastLease(), error(nil)
	read := e.claimUnknown // an interrupted claim may have succeeded nevertheless
	for range 2 {
		if read {
			lease, err = e.get(ctx)
		}
		if err == nil {
			err = e.clearHolder(ctx, lease)
		}
		if !apierrors.IsConflict(err) {
			break
		}
		read = true
	}
	if err != nil && !apierrors.IsNotFound(err) {
		e.log.Warn("cannot release the lease; other candidates have to wait until it expires", "error", err)
	}
}

// clearHolder writes the lease without a holder, unless it is not ours.
func (e *election) clearHolder(ctx context.Context, lease *coordinationv1.Lease) error {
	e.observe(lease)
	if holder(lease) != e.Identity {
		return nil
	}
	free := lease.DeepCopy()
	none, second, now := "", int32(1), metav1.NewMicroTime(time.Now())
	free.Spec.HolderIdentity, free.Spec.LeaseDurationSeconds, free.Spec.RenewTime = &none, &second, &now
	written, err := e.call(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return e.Client.Update(ctx, free, metav1.UpdateOptions{})
	})
	if err != nil {
		return err
	}
	e.observe(written)
	e.log.Info("released the lease")
	return nil
}

func (e *election) get(ctx context.Context) (*coordinationv1.Lease, error) {
	return e.call(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return e.Client.Get(ctx, e.Name, metav1.GetOptions{})
	})
}

// call makes one call to the API server, and waits no longer than callTimeout for its response. A call that ignores
// its context is abandoned, and a panic in it is returned as an error.
func (e *election) call(ctx context.Context, do func(context.Context) (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.callTimeout, fmt.Errorf("no response within %v", e.callTimeout))
	defer cancel()
	type answer struct {
		lease *coordinationv1.Lease
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if v := recover(); v != nil {
				a = answer{nil, &PanicError{Value: v, Stack: debug.Stack()}}
			}
			answers <- a
		}()
		a.err = errors.New("the client returned no lease")
		if lease, err := do(ctx); lease != nil || err != nil {
			a = answer{lease, err}
		}
	}()
	select {
	case a := <-answers:
		return a.lease, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answers: // it arrived at the same time
		return a.lease, a.err
	default:
		return nil, context.Cause(ctx)
	}
}

// event writes an event about the lease, worded like those of client-go's leader election.
func (e *election) event(what string) {
	if e.Events == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			e.log.Error("writing an event panicked", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	lease := &coordinationv1.Lease{ObjectMeta: e.lastLease().ObjectMeta}
	lease.Kind, lease.APIVersion = "Lease", coordinationv1.SchemeGroupVersion.String()
	e.Events.Eventf(lease, corev1.EventTypeNormal, "LeaderElection", "%s %s", e.Identity, what)
}
