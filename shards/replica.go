package shards

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/leases"
)

// Client reads and writes the Leases of one namespace; client-go's LeaseInterface implements it.
type Client interface {
	Create(ctx context.Context, lease *coordinationv1.Lease, o metav1.CreateOptions) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
	List(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// Errors that callers may want to distinguish.
var (
	// ErrLost is the cause with which the context of work ends when the replica can no longer be sure that it owns the
	// shard.
	ErrLost = errors.New("shard lost")
	// ErrStillRunning is returned by Lead if work has not ended by the time at which others may begin. The process has to
	// exit immediately.
	ErrStillRunning = errors.New("work on lost shards is still running")
)

// MaxShards is the largest number of shards.
const MaxShards = 10_000

// Replica is one of the processes that share the shards of a group. Lead takes part; Begin asks, for each piece of
// work, whether this replica may do it. New returns one with its own client. The fields must not change after Lead was
// called. The methods are safe for concurrent use. It must not be copied.
type Replica struct {
	// Client is for the Leases. It should have no rate limit: a renewal that waits behind other calls comes too late.
	Client Client
	// Name is the group's name, which is also that of the Lease with the table, and the first part of the members'
	// names. It has at most 63 characters. Identity is this process's unique identity.
	Name, Identity string
	// Shards is the number of shards, from 1 to MaxShards. With ten times the number of replicas, the busiest replica has
	// about 1.5 times the shards of the average one, with a hundred times about 1.15 times.
	Shards int
	// For says what the shards are for, such as the names of the controllers. Replicas with another number of shards, or
	// for something else, take none until all the others have gone: a shard is not the same to both.
	For string
	// Duration is how long others wait for a renewal before they take a replica's shards, in whole seconds; zero means
	// 15 s.
	Duration time.Duration
	// RenewDeadline is how long the replica works without a renewal; zero means two thirds of Duration.
	RenewDeadline time.Duration
	// RetryPeriod is the time between renewals, plus a random part of up to a fifth; zero means three tenths of
	// RenewDeadline.
	RetryPeriod time.Duration
	// Rand returns random numbers in [0,1); nil means math/rand/v2.
	Rand func() float64
	// Logger receives changes and errors of calls. Nil means slog.Default().
	Logger *slog.Logger

	mu sync.Mutex
	// held are the shards that this replica has taken up and not given away.
	held map[int]*holding
	// running is the number of pieces of work that run.
	running int
	// until is when work may not start any more, and exitAt when all of it must have ended, unless the Lease is renewed.
	until, exitAt time.Time
	// suspended is set if until has passed, or the Lease is gone.
	suspended bool
	work      context.Context // of work that starts now
	endWork   context.CancelCauseFunc
	gains     uint64        // counts what was taken up
	changed   chan struct{} // closed and replaced when Held has changed
	wake      chan struct{} // makes the replica look at the Leases; has a buffer of one
	stats     Stats
	unowned   map[int]time.Time // since when the shards are without an owner, as far as is known
	waits     string            // why this replica takes no shards, or ""
	others    int               // members that this replica may give shards to
	awake     func()            // for tests: returns once the process gets CPU
}

// holding is a shard that this replica has.
type holding struct {
	running  int
	draining bool
	gain     uint64
}

// New returns a replica with a client for config's API server, which shares neither rate limits nor connections with
// other clients, and an Identity made of the host's name and a random suffix. config is not modified.
func New(config *rest.Config, namespace, name string, shards int) (*Replica, error) {
	client, err := leases.New(config, namespace, "shards")
	if err != nil {
		return nil, fmt.Errorf("shards %s: %w", name, err)
	}
	identity, err := leases.Identity()
	if err != nil {
		return nil, fmt.Errorf("shards %s: %w", name, err)
	}
	return &Replica{Client: client, Name: name, Identity: identity, Shards: shards}, nil
}

// setUp checks the fields, and sets those that were not set.
func (r *Replica) setUp() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Duration = cmp.Or(r.Duration, 15*time.Second)
	r.RenewDeadline = cmp.Or(r.RenewDeadline, r.Duration*2/3)
	r.RetryPeriod = cmp.Or(r.RetryPeriod, r.RenewDeadline*3/10)
	if r.Rand == nil {
		r.Rand = rand.Float64
	}
	if r.awake == nil {
		r.awake = func() {}
	}
	r.Logger = cmp.Or(r.Logger, slog.Default()).With("shards", r.Name, "identity", r.Identity)
	switch {
	case r.Client == nil || r.Name == "" || r.Identity == "":
		return errors.New("shards: Client, Name and Identity have to be set")
	case len(r.Name) > 63:
		return fmt.Errorf("shards %s: the name has %d characters, want at most 63, as a label has", r.Name, len(r.Name))
	case r.Shards < 1 || r.Shards > MaxShards:
		return fmt.Errorf("shards %s: %d shards, want 1 to %d", r.Name, r.Shards, MaxShards)
	case r.Duration%time.Second != 0 || r.Duration <= 0:
		return fmt.Errorf("shards %s: Duration is %v, want whole seconds, as a Lease holds no others", r.Name, r.Duration)
	case r.RenewDeadline >= r.Duration || r.RenewDeadline <= r.RetryPeriod*6/5 || r.RetryPeriod <= 0:
		return fmt.Errorf("shards %s: want RetryPeriod and a fifth of it < RenewDeadline < Duration, have %v < %v < %v",
			r.Name, r.RetryPeriod, r.RenewDeadline, r.Duration)
	}
	r.held, r.unowned = make(map[int]*holding), make(map[int]time.Time)
	r.wake = make(chan struct{}, 1)
	r.suspended = true
	return nil
}

// layout is what all members have to agree on.
func (r *Replica) layout() string { return fmt.Sprintf("%d for %s", r.Shards, r.For) }

// ShardOf returns the shard of a text, such as a namespace; see the function ShardOf.
func (r *Replica) ShardOf(text string) int { return ShardOf(text, r.Shards) }

// Begin reports whether work on the shard may start now. If so, the work runs with the returned context, which ends with
// ctx, or with ErrLost as its cause if the shard may soon be somebody else's, and end has to be called when the work has
// ended.
func (r *Replica) Begin(ctx context.Context, shard int) (work context.Context, end func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.held[shard]
	if h == nil || h.draining || !r.mayStart() {
		return nil, nil, false
	}
	h.running++
	r.running++
	work, cancel := context.WithCancelCause(ctx)
	lost := r.work
	release := context.AfterFunc(lost, func() { cancel(context.Cause(lost)) })
	return work, func() {
		release()
		cancel(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		h.running--
		r.running--
		if h.running == 0 && (h.draining || r.running == 0) {
			r.look()
		}
	}, true
}

// mayStart reports whether the Lease was renewed recently. The caller holds mu.
func (r *Replica) mayStart() bool { return !r.suspended && time.Now().Before(r.until) }

// Held returns the shards that this replica may work on now, each with a number that changes whenever it was taken up.
func (r *Replica) Held() map[int]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := make(map[int]uint64, len(r.held))
	if !r.mayStart() {
		return held
	}
	for s, h := range r.held {
		if !h.draining {
			held[s] = h.gain
		}
	}
	return held
}

// Changed returns a channel that is closed when Held has changed after this call.
func (r *Replica) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

// noteChange tells those that wait for Changed. The caller holds mu.
func (r *Replica) noteChange() {
	if r.changed != nil {
		close(r.changed)
	}
	r.changed = make(chan struct{})
}

// look makes the replica look at the Leases soon.
func (r *Replica) look() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take takes a shard up. The caller holds mu.
func (r *Replica) take(shard int) {
	r.gains++
	r.stats.Gained++
	r.held[shard] = &holding{gain: r.gains}
}

// Lead takes part in the group, and calls run, once. It does so until run has returned, which it should when its context
// has ended. When ctx ends, the replica gives its shards away as soon as its work on each has ended.
//
// It returns run's error. If something keeps it from taking part at all, such as missing rights, it ends run's context and
// returns that error as well. If work does not end in time after the replica has lost shards, Lead returns
// ErrStillRunning without waiting for run.
//
// It makes a Replica a controller.Elector.
func (r *Replica) Lead(ctx context.Context, run func(ctx context.Context) error) error {
	if err := r.setUp(); err != nil {
		return err
	}
	runCtx, endRun := context.WithCancelCause(ctx)
	defer endRun(nil)
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRenewing()
	m := &membership{Replica: r, leave: make(chan struct{}), stuck: make(chan error, 1)}
	leave := sync.OnceFunc(func() { close(m.leave) })
	stopped := context.AfterFunc(ctx, leave)
	defer stopped()
	returned, left := make(chan error, 1), make(chan error, 1)
	go func() { returned <- run(runCtx) }()
	go func() { left <- m.takePart(renewing) }()
	defer m.stopTimers()
	var err error
	select {
	case err = <-m.stuck:
		endRun(err)
		return err
	case err = <-left:
		endRun(err)
		return errors.Join(err, <-returned)
	case err = <-returned:
	}
	leave()
	giveUp := time.AfterFunc(r.RenewDeadline/2, stopRenewing) // the API server may be out of reach
	defer giveUp.Stop()
	if r.busy() { // run has given up waiting for its work, so the Lease has to expire
		r.Logger.Warn("work is still running, so the shards are not given away")
		stopRenewing()
	}
	select {
	case stuck := <-m.stuck:
		return errors.Join(err, stuck)
	case wrong := <-left:
		return errors.Join(err, wrong)
	}
}

func (r *Replica) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running > 0
}
