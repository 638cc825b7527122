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

// term is one call of Lead, from acquiring the lease to releasing it.
type term struct {
	*LeaseElector
	duration, deadline, retry, callTimeout time.Duration
	random                                 func() float64
	log                                    *slog.Logger
	// unsure is set if the outcome of the last claim is unknown. Only the goroutine that makes the calls uses it.
	unsure bool
}

// acquire tries to get the lease until ctx ends. It returns the time right before the successful call.
func (t *term) acquire(ctx context.Context) (renewed time.Time, ok bool) {
	for {
		renewed = time.Now()
		held, err := t.tryAcquire(ctx)
		switch {
		case ctx.Err() != nil:
			t.release(ctx)
			return time.Time{}, false
		case held && time.Since(renewed) < t.deadline:
			return renewed, true
		case err != nil:
			t.log.Warn("cannot get the lease", "error", err)
		}
		if !t.pause(ctx, t.retry) {
			t.release(ctx)
			return time.Time{}, false
		}
	}
}

// reign is the part of a term in which this process leads.
type reign struct {
	*term
	turn   *turn
	cancel context.CancelCauseFunc // of the work's context
	fence  *time.Timer             // ends the reign if the lease is not renewed

	once  sync.Once
	loss  error // set once turn.lost is closed
	ended bool
}

// takenGrace is how long a leader's work may take to end after another process has taken the lease.
const takenGrace = time.Second

// lead calls run while renewing the lease, and releases it afterwards.
func (t *term) lead(ctx context.Context, renewed time.Time, run func(ctx context.Context) error) error {
	runCtx, r := t.begin(ctx, renewed)
	defer r.end()
	renewCtx, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	var renewing sync.WaitGroup
	defer renewing.Wait() // also when run panics
	defer stopRenewing()
	renewing.Go(func() { r.renew(renewCtx) })
	err := run(runCtx)
	stopRenewing()
	renewing.Wait()
	r.end()
	if errors.Is(err, ErrStillRunning) {
		t.log.Warn("work is still running, so the lease is not released", "error", err)
	} else {
		t.release(ctx)
	}
	select {
	case <-r.turn.lost:
		return errors.Join(err, fmt.Errorf("lease %s: %w", t.Name, r.loss))
	default:
		return err
	}
}

// begin starts the reign, and returns the context for its work.
func (t *term) begin(ctx context.Context, renewed time.Time) (context.Context, *reign) {
	r := &reign{term: t, turn: &turn{lost: make(chan struct{})}}
	ctx, r.cancel = context.WithCancelCause(withTurn(ctx, r.turn))
	r.mu.Lock()
	r.leading = true
	r.stats.Terms++
	r.mu.Unlock()
	r.noteRenewal(renewed)
	r.fence = time.AfterFunc(t.deadline-time.Since(renewed), func() {
		r.lose(fmt.Errorf("%w: not renewed for %v", ErrLeaseLost, t.deadline))
	})
	t.log.Info("leading")
	t.event("became leader")
	return ctx, r
}

// end ends the reign, if it has not ended yet.
func (r *reign) end() {
	r.cancel(nil)
	r.fence.Stop()
	r.mu.Lock()
	ended := r.ended
	r.ended, r.leading = true, false
	r.mu.Unlock()
	if !ended {
		r.log.Info("stopped leading")
		r.event("stopped leading")
	}
}

// lose ends the work's context: the lease is lost, or may soon be.
func (r *reign) lose(why error) {
	r.once.Do(func() {
		r.mu.Lock()
		r.leading = false
		r.stats.Losses++
		r.mu.Unlock()
		r.loss = why
		close(r.turn.lost) // before the work can end, so that lead returns the reason
		r.cancel(why)
		r.log.Error("lost the lease, stopping", "error", why)
	})
}

// noteRenewal records that the lease was renewed by a call that began at the given time.
func (r *reign) noteRenewal(at time.Time) {
	r.mu.Lock()
	r.stats.LastRenewal = at
	r.mu.Unlock()
	r.turn.setUntil(at.Add(r.duration - (r.duration-r.deadline)/5))
}

// renew renews the lease until ctx ends or another process has it, and resets the fence each time. After the fence
// has ended the work's context, it continues until the work has ended, to keep others from taking over.
func (r *reign) renew(ctx context.Context) {
	wait := r.retry
	for r.pause(ctx, wait) {
		start := time.Now()
		held, err := r.tryRenew(ctx)
		if ctx.Err() != nil && !held {
			return
		}
		r.countRenewal(held)
		switch {
		case held:
			wait = r.retry
			r.noteRenewal(start)
			if r.fence.Stop() { // otherwise it is too late: the work's context has ended
				r.fence.Reset(r.deadline - time.Since(start))
			}
		case err == nil:
			r.turn.setUntil(r.turn.limit(time.Now().Add(takenGrace)))
			r.lose(fmt.Errorf("%w: its holder is now %q", ErrLeaseLost, holder(r.known())))
			return
		default:
			wait = r.retry / 4
			r.log.Warn("cannot renew the lease", "error", err)
		}
	}
}

func (r *reign) countRenewal(held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if held {
		r.stats.Renewals++
	} else {
		r.stats.RenewFailures++
	}
}

// pause waits for d and up to a fifth more. It returns false if ctx ends first.
func (t *term) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d + time.Duration(t.random()*float64(d)/5))
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
func (t *term) tryRenew(ctx context.Context) (held bool, err error) {
	held, err = t.write(ctx, t.known())
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return held, err
	}
	lease, err := t.get(ctx)
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

// tryAcquire reads the lease, and takes it if it is free or ours. It returns false and no error if another process has it.
func (t *term) tryAcquire(ctx context.Context) (held bool, err error) {
	lease, err := t.get(ctx)
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

// observe records the lease and logs a new leader. It returns for how long another process still holds the lease.
func (t *term) observe(lease *coordinationv1.Lease) time.Duration {
	before, left := t.LeaseElector.observe(lease)
	if h := holder(lease); h != before && h != t.Identity && h != "" {
		t.log.Info("another process leads", "leader", h)
	}
	return left
}

func (t *term) create(ctx context.Context) (held bool, err error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: t.Name}}
	return t.send(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return t.Client.Create(ctx, t.claim(lease), metav1.CreateOptions{})
	})
}

// write writes our claim to the lease as we know it; the API server rejects it if another process was faster.
func (t *term) write(ctx context.Context, lease *coordinationv1.Lease) (held bool, err error) {
	return t.send(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return t.Client.Update(ctx, t.claim(lease), metav1.UpdateOptions{})
	})
}

// send sends a claim.
func (t *term) send(ctx context.Context, claim func(context.Context) (*coordinationv1.Lease, error)) (held bool, err error) {
	written, err := t.call(ctx, claim)
	t.unsure = err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err)
	if err != nil {
		return false, err
	}
	t.observe(written)
	return true, nil
}

// claim returns a copy of the lease with this process as its holder from now on.
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

// release releases the lease if it is or may be ours. The work that it protects must have ended.
func (t *term) release(ctx context.Context) {
	if holder(t.known()) != t.Identity && !t.unsure {
		return
	}
	ctx = context.WithoutCancel(ctx)
	lease, err := t.known(), error(nil)
	read := t.unsure // an interrupted claim may have succeeded nevertheless
	for range 2 {
		if read {
			lease, err = t.get(ctx)
		}
		if err == nil {
			err = t.free(ctx, lease)
		}
		if !apierrors.IsConflict(err) {
			break
		}
		read = true
	}
	if err != nil && !apierrors.IsNotFound(err) {
		t.log.Warn("cannot release the lease; other candidates have to wait until it expires", "error", err)
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
	written, err := t.call(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return t.Client.Update(ctx, free, metav1.UpdateOptions{})
	})
	if err != nil {
		return err
	}
	t.observe(written)
	t.log.Info("released the lease")
	return nil
}

func (t *term) get(ctx context.Context) (*coordinationv1.Lease, error) {
	return t.call(ctx, func(ctx context.Context) (*coordinationv1.Lease, error) {
		return t.Client.Get(ctx, t.Name, metav1.GetOptions{})
	})
}

// call makes one call to the API server, and waits no longer than callTimeout for its response. A call that ignores
// its context is abandoned, and a panic in it is returned as an error.
func (t *term) call(ctx context.Context, do func(context.Context) (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.callTimeout, fmt.Errorf("no response within %v", t.callTimeout))
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
func (t *term) event(what string) {
	if t.Events == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			t.log.Error("writing an event panicked", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	lease := &coordinationv1.Lease{ObjectMeta: t.known().ObjectMeta}
	lease.Kind, lease.APIVersion = "Lease", coordinationv1.SchemeGroupVersion.String()
	t.Events.Eventf(lease, corev1.EventTypeNormal, "LeaderElection", "%s %s", t.Identity, what)
}
