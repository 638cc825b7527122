package shards

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// membership is one call of Lead. It consists of terms, one after the other, each with a Lease of its own.
type membership struct {
	*Replica
	leave  chan struct{} // closed when the replica is to give its shards away
	stuck  chan error    // gets an error if work has not ended in time; has a buffer of one
	expiry *time.Timer   // at until
	exit   *time.Timer   // at exitAt
	seen   observations
	// abandoned are the names of Leases that this process tried to create and gave up; it never worked as these members.
	// They may exist after all, or later.
	abandoned []string
}

// maxAbandoned limits abandoned names to the last ones: a request does not take minutes to arrive.
const maxAbandoned = 50

// takenGrace is how long work may take to end after the Lease was found to be gone.
const takenGrace = time.Second

// takePart takes part until the replica has left, or ctx ends, or it is clear that it cannot. Before leave is closed it
// returns with an error only.
func (m *membership) takePart(ctx context.Context) error {
	for {
		t := &term{membership: m}
		err := t.run(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("shards %s: %w", m.Name, err)
		case t.left:
			return nil
		}
	}
}

func (m *membership) isLeaving() bool {
	select {
	case <-m.leave:
		return true
	default:
		return false
	}
}

// setDeadlines sets when work ends unless the Lease is renewed. The caller holds mu.
func (m *membership) setDeadlines(until, exitAt time.Time) {
	m.until, m.exitAt = until, exitAt
	if m.expiry == nil {
		m.expiry = time.AfterFunc(time.Until(until), m.suspendIfDue)
		m.exit = time.AfterFunc(time.Until(exitAt), m.exitIfDue)
	}
	m.expiry.Reset(time.Until(until))
	m.exit.Reset(time.Until(exitAt))
}

func (m *membership) stopTimers() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.expiry != nil {
		m.expiry.Stop()
		m.exit.Stop()
	}
	m.suspend(context.Canceled)
}

// suspendIfDue ends all work if the Lease was not renewed in time.
func (m *membership) suspendIfDue() {
	m.awake()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !time.Now().Before(m.until) {
		m.suspend(fmt.Errorf("%w: the Lease was not renewed for %v", ErrLost, m.RenewDeadline))
	}
}

// suspend ends the work. The caller holds mu.
func (m *membership) suspend(why error) {
	if m.suspended {
		return
	}
	m.suspended = true
	m.endWork(why)
	m.noteChange()
	if errors.Is(why, ErrLost) {
		m.stats.Losses++
		m.Logger.Error("lost the shards", "shards held", len(m.held), "error", why)
	}
}

// exitIfDue makes Lead return if work still runs although others may begin.
func (m *membership) exitIfDue() {
	m.awake()
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Now().Before(m.exitAt) || m.running == 0 {
		return
	}
	select {
	case m.stuck <- fmt.Errorf("shards %s: %w: %d reconciles", m.Name, ErrStillRunning, m.running):
	default:
	}
}

// abandon gives a name up.
func (m *membership) abandon(name string) {
	if m.abandoned = append(m.abandoned, name); len(m.abandoned) > maxAbandoned {
		m.abandoned = m.abandoned[1:]
	}
}

// newName returns the name of a Lease that no member has had.
func (m *membership) newName() string {
	return m.Name + "-" + strings.ToLower(rand.Text()[:13])
}

// call makes a call to the API server, and waits no longer than half of RenewDeadline.
func (m *membership) call(ctx context.Context, do func(context.Context) error) error {
	limit := m.RenewDeadline / 2
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no response within %v", limit))
	defer cancel()
	err := explained(do(ctx))
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// explained adds to an error about missing rights what the program's role needs.
func explained(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("%w; a Role of the program needs the rule {apiGroups: [coordination.k8s.io], resources: [leases], "+
		"verbs: [list, watch, create, update, delete]}", err)
}

// pause waits for d and up to a fifth more. It returns false if ctx ends first.
func (m *membership) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d + time.Duration(m.Rand()*float64(d)/5))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		m.awake()
		return true
	}
}

func (m *membership) selected() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: groupLabel + "=" + m.Name}
}
