package shards

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// term is the life of one member: from the creation of its Lease until that is gone.
type term struct {
	*membership
	name string
	// lease is this member's Lease as last written or read. Only renew uses it while it runs.
	lease *coordinationv1.Lease
	// table is the last one that was read or written. uncertain is the version that a write of the table had as its
	// precondition, if that may still arrive; see noVersion.
	table     *table
	uncertain string
	uid       types.UID // of the Lease
	done      bool      // the Leases were read in this term
	left      bool      // the replica has left in order

	over   error         // why the term is over, or nil; mu guards it
	ended  chan struct{} // closed when over is set
	claims string        // for claimsKey; mu guards it
	say    chan struct{} // makes renew write the Lease; has a buffer of one
}

// noVersion stands for the precondition that there is no table.
const noVersion = "none"

// errGone says that the member's Lease does not exist any more.
var errGone = errors.New("its Lease is gone")

// run joins the group, and takes part until the term is over, the replica has left, or ctx ends. It returns an error if the
// replica cannot take part.
func (t *term) run(ctx context.Context) error {
	t.ended, t.say = make(chan struct{}), make(chan struct{}, 1)
	joined, err := t.join(ctx)
	if !joined {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer cancel()
	helpers.Go(func() { t.renew(ctx) })
	helpers.Go(func() { t.watch(ctx) })
	err = t.takePart(ctx)
	cancel()
	helpers.Wait()
	if err == nil && (t.left || t.isOver() != nil) {
		t.leaveLease(context.WithoutCancel(ctx))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.held)
	return err
}

// join creates the Lease. It tries until ctx ends or the replica is to leave.
func (t *term) join(ctx context.Context) (joined bool, err error) {
	for first := time.Now(); ; {
		if t.isLeaving() {
			t.left = true
			return false, nil
		}
		// Once others may have deleted the Lease, as nobody renews it, its name must not be used again.
		if t.name == "" || time.Since(first) > t.RenewDeadline/2 {
			if t.name != "" {
				t.abandon(t.name)
			}
			first, t.name, t.lease = time.Now(), t.newName(), nil
		}
		sent, err := t.claim(ctx)
		t.awake()
		switch {
		case err == nil:
			t.uid = t.lease.UID
			t.noteRenewal(sent)
			t.Logger.Info("taking part", "member", t.name)
			return true, nil
		case apierrors.IsForbidden(err):
			return false, err
		case ctx.Err() != nil:
			return false, nil
		}
		t.Logger.Warn("cannot take part yet", "error", err)
		if !t.pause(ctx, t.RetryPeriod/4) {
			return false, nil
		}
	}
}

// takePart looks at the Leases whenever there may be something to do.
func (t *term) takePart(ctx context.Context) error {
	leaving := t.leave
	for wait := time.Duration(0); ; {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-leaving:
			leaving = nil
		case <-t.wake:
			t.settle(ctx)
		case <-timer.C:
		case <-t.ended:
			t.awaitEnd(ctx)
			return nil
		}
		timer.Stop()
		t.awake()
		if t.left = t.isLeaving() && !t.busy() && t.mayLeave(); t.left {
			return nil
		}
		next, err := t.step(ctx)
		switch {
		case err != nil && apierrors.IsForbidden(err) && !t.done:
			return err
		case err != nil && ctx.Err() == nil && t.isOver() == nil:
			t.Logger.Warn("cannot divide the shards", "error", err)
		}
		wait = next
	}
}

// settle waits a little, since changes rarely come alone, and others may be about to make the same ones.
func (t *term) settle(ctx context.Context) {
	t.pause(ctx, 10*time.Millisecond+time.Duration(t.Rand()*float64(30*time.Millisecond)))
}

// awaitEnd waits until all work has ended. If that takes too long, Lead returns.
func (t *term) awaitEnd(ctx context.Context) {
	for t.busy() {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		}
	}
}

// mayLeave reports whether the replica has given its shards away, or there is nobody to give them to.
func (t *term) mayLeave() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.held) == 0 || t.others == 0
}

// end ends the term: others may take its shards.
func (t *term) end(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over != nil {
		return
	}
	t.over = why
	close(t.ended)
	if exitAt := time.Now().Add(takenGrace); exitAt.Before(t.exitAt) {
		t.exitAt = exitAt
	}
	t.setDeadlines(time.Time{}, t.exitAt)
	t.suspend(fmt.Errorf("%w: %w", ErrLost, why))
	t.look()
}

func (t *term) isOver() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// renew renews the Lease until it is gone or ctx ends.
func (t *term) renew(ctx context.Context) {
	wait, leave := t.RetryPeriod, t.leave
	for {
		timer := time.NewTimer(wait + time.Duration(t.Rand()*float64(wait)/5))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-leave: // to say so
			leave = nil
		case <-t.say:
		case <-timer.C:
		}
		timer.Stop()
		t.awake()
		sent, err := t.claim(ctx)
		t.awake()
		switch {
		case err == nil:
			t.noteRenewal(sent)
			wait = t.RetryPeriod
		case errors.Is(err, errGone):
			t.end(err)
			return
		case ctx.Err() != nil:
			return
		default:
			t.noteFailure()
			t.Logger.Warn("cannot renew the Lease", "error", err)
			wait = t.RetryPeriod / 4
		}
	}
}

// noteRenewal records that the Lease was renewed by a call that began at the given time.
func (t *term) noteRenewal(sent time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Renewals++
	if t.over != nil {
		return
	}
	t.stats.LastRenewal = sent
	t.setDeadlines(sent.Add(t.RenewDeadline), sent.Add(t.Duration-(t.Duration-t.RenewDeadline)/5))
	if !t.suspended || !time.Now().Before(t.until) {
		return
	}
	t.suspended = false
	t.work, t.endWork = context.WithCancelCause(context.Background())
	for _, h := range t.held {
		t.gains++
		h.gain = t.gains
	}
	t.noteChange()
}

func (t *term) noteFailure() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.RenewFailures++
}

// claim creates or renews the Lease. It returns when the call that did so was made.
func (t *term) claim(ctx context.Context) (sent time.Time, err error) {
	for range 3 {
		sent = time.Now()
		err = t.call(ctx, func(ctx context.Context) error {
			written, err := t.write(ctx, t.claimed())
			if err == nil {
				t.lease = written
			}
			return err
		})
		switch {
		case apierrors.IsNotFound(err) && t.lease != nil:
			return sent, errGone
		case !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err):
			return sent, err
		}
		if err := t.reread(ctx); err != nil {
			return sent, err
		}
	}
	return sent, err
}

func (t *term) write(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	if lease.ResourceVersion == "" {
		return t.Client.Create(ctx, lease, metav1.CreateOptions{})
	}
	return t.Client.Update(ctx, lease, metav1.UpdateOptions{})
}

// claimed returns the Lease as it is to be written.
func (t *term) claimed() *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: t.name}}
	if t.lease != nil {
		lease = t.lease.DeepCopy()
	}
	metav1.SetMetaDataLabel(&lease.ObjectMeta, groupLabel, t.Name)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, layoutKey, t.layout())
	if t.isLeaving() || t.isOver() != nil {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, leavingKey, "true")
	}
	delete(lease.Annotations, claimsKey)
	if claims := t.currentClaims(); claims != "" {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, claimsKey, claims)
	}
	now, seconds := metav1.NewMicroTime(time.Now()), int32(t.Duration/time.Second)
	if lease.Spec.AcquireTime == nil {
		lease.Spec.AcquireTime = &now
	}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &t.Identity, &now, &seconds
	return lease
}

// reread reads the Lease, after somebody else has written it, or a write of ours had an unknown outcome.
func (t *term) reread(ctx context.Context) error {
	list, err := t.list(ctx, t.selected())
	if err != nil {
		return err
	}
	for i := range list.Items {
		lease := &list.Items[i]
		if lease.Name == t.name && (t.lease == nil || t.lease.UID == lease.UID) {
			t.lease = lease
			return nil
		}
	}
	return errGone
}

func (t *term) list(ctx context.Context, o metav1.ListOptions) (list *coordinationv1.LeaseList, err error) {
	err = t.call(ctx, func(ctx context.Context) (err error) {
		list, err = t.Client.List(ctx, o)
		return err
	})
	t.awake()
	return list, err
}

// leaveLease deletes the Lease, as all work has ended. If the API server was restored, others may take a while to
// notice, so the Lease stays until it expires, and says that it takes nothing.
func (t *term) leaveLease(ctx context.Context) {
	err := t.isOver()
	switch {
	case errors.Is(err, errGone):
		return
	case err != nil:
		_, err = t.claim(ctx)
	default:
		err = t.call(ctx, func(ctx context.Context) error {
			return t.Client.Delete(ctx, t.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &t.uid}})
		})
		if err == nil {
			t.release(ctx)
		}
	}
	if err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, errGone) {
		t.Logger.Warn("cannot delete the Lease; others have to wait until it expires", "error", err)
	}
}

// release lets an election have the table's Lease if this member was the last: the program may not share shards any more.
func (t *term) release(ctx context.Context) {
	list, err := t.list(ctx, t.selected())
	if err == nil {
		v := readView(list, t.Name, t.Shards)
		if v.table == nil || len(v.members) > 0 || holderOf(v.table.lease) != tableHolder {
			return
		}
		lease := v.table.lease.DeepCopy()
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = nil, nil
		err = t.call(ctx, func(ctx context.Context) error {
			_, err := t.write(ctx, lease)
			return err
		})
	}
	if err != nil && !apierrors.IsConflict(err) {
		t.Logger.Warn("cannot release the Lease of the table; an election by the same Lease has to wait", "error", err)
	}
}
