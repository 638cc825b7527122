package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
)

const (
	// syncLogAfter is when a wait for sync first logs what it is waiting for.
	syncLogAfter = 1500 * time.Millisecond
	// syncLogEvery is the interval between later messages.
	syncLogEvery = usercode.LogEvery
)

// Obstacle is what keeps an informer from being synced or fresh, or what ended the wait for that.
type Obstacle struct {
	// Namespace is the namespace in the worst state, if the informer has several.
	Namespace string
	// Problem is the present problem; nil if nothing has failed.
	Problem *reflector.Error
	// Skipped names objects that could not be decoded; SkippedCount is the number of all of them.
	Skipped      []reflector.Skipped
	SkippedCount int
	// Progress describes how far the list has got, such as "listing, 1500 objects so far".
	Progress string
	// Wait is what ended the wait, if it did.
	Wait error
}

// HasSynced reports whether every part has had its first list. It can become false again when namespaces are added.
func (inf *Informer[T]) HasSynced() bool { return inf.everSynced() && allBegun(inf.currentParts()) }

// everSynced reports whether at some time every part of that time had had its first list.
func (inf *Informer[T]) everSynced() bool {
	select {
	case <-inf.synced:
		return true
	default:
		return false
	}
}

// Synced is closed when every part has had its first list.
func (inf *Informer[T]) Synced() <-chan struct{} { return inf.synced }

// WaitForSync returns nil when the informer has synced with every object. Otherwise it returns the
// obstacle: when ctx or the informer ends, when objects were skipped because they cannot be
// decoded, and, if failFast is set, at once for a permanent problem. err is set instead if the
// informer is not running.
func (inf *Informer[T]) WaitForSync(ctx context.Context, failFast bool) (obstacle *Obstacle, err error) {
	logTimer := time.NewTimer(syncLogAfter)
	defer logTimer.Stop()
	for {
		changed := inf.changes() // before looking: what changes after that is not missed
		if inf.HasSynced() {
			return inf.skippedObstacle(), nil
		}
		if err := inf.CheckRunning(); err != nil {
			return nil, err
		}
		before := inf.Obstacle()
		if failFast && before.Problem != nil && before.Problem.Permanent() {
			return before, nil
		}
		select {
		case <-changed:
		case <-logTimer.C:
			now := inf.Obstacle() // nobody is notified of progress
			inf.log.Log(slog.LevelWarn, "waiting for sync", "namespace", now.Namespace, "progress", now.Progress, "problem", problemText(now.Problem))
			logTimer.Reset(syncLogEvery)
		case <-inf.life.Done():
			before.Wait = context.Cause(inf.life)
			return before, nil
		case <-ctx.Done():
			if inf.HasSynced() {
				return inf.skippedObstacle(), nil
			}
			now := inf.Obstacle()
			now.Wait = context.Cause(ctx)
			return now, nil
		}
	}
}

func problemText(err *reflector.Error) string {
	if err == nil {
		return "none; no answer yet"
	}
	return err.Error()
}

// changes returns the channel that is closed when a part's state next changes.
func (inf *Informer[T]) changes() <-chan struct{} {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.changed
}

// CheckRunning returns an error if waiting for this informer is pointless, because it is not running.
func (inf *Informer[T]) CheckRunning() error {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	switch inf.phase {
	case notStarted:
		return fmt.Errorf("%s: %w", inf.cfg.Name, ErrNotStarted)
	case stopping:
		return fmt.Errorf("%s: %w", inf.cfg.Name, ErrStopped)
	}
	return nil
}

// Obstacle describes the part in the worst state among those that have not synced: one with a
// permanent problem, or else one with any problem.
func (inf *Informer[T]) Obstacle() *Obstacle {
	o := &Obstacle{Progress: "starting"}
	parts := inf.currentParts()
	for _, p := range parts {
		st := p.reflectorStatus()
		if !st.SyncedSince.IsZero() {
			continue
		}
		worse := o.Problem == nil || st.Problem != nil && st.Problem.Permanent() && !o.Problem.Permanent()
		if !worse {
			continue
		}
		o.Problem, o.Progress = st.Problem, p.fileStatus().Progress(st)
		if len(parts) > 1 {
			o.Namespace = p.namespace
		}
	}
	return o
}

// skippedObstacle names the objects that are missing or outdated because they could not be decoded;
// nil if there are none.
func (inf *Informer[T]) skippedObstacle() *Obstacle {
	o := &Obstacle{Progress: "synced"}
	for _, p := range inf.currentParts() {
		st := p.reflectorStatus()
		o.Skipped = append(o.Skipped, st.Skipped...)
		o.SkippedCount += st.SkippedTotal
	}
	if o.SkippedCount == 0 {
		return nil
	}
	return o
}

// WaitForKey returns when the store holds the object under key at the version or a newer one, or
// its namespace is current to the version. It returns ErrOutOfScope if the informer does not have
// the object's namespace, or removes it.
func (inf *Informer[T]) WaitForKey(ctx context.Context, key object.Key, version string) error {
	held := func() *part[T] { return inf.partOf(key.Namespace) }
	return inf.waitFor(ctx, held, func(ctx context.Context) error { return inf.store.WaitForKey(ctx, key, version) })
}

// WaitForVersion returns when the store is current to the version in the namespace; "" is all of
// them. It returns ErrOutOfScope if the informer does not have the namespace, or removes it.
func (inf *Informer[T]) WaitForVersion(ctx context.Context, namespace, version string) error {
	held := func() *part[T] { return inf.partOf(namespace) }
	if namespace == "" {
		held = nil
	}
	return inf.waitFor(ctx, held, func(ctx context.Context) error { return inf.store.WaitIn(ctx, namespace, version) })
}

// waitFor waits while the informer runs and held, if set, returns a part. If that part is removed,
// another may take its place.
func (inf *Informer[T]) waitFor(ctx context.Context, held func() *part[T], wait func(context.Context) error) error {
	defer inf.versionWaits.begin()()
	for {
		if err := inf.CheckRunning(); err != nil {
			return err
		}
		life := inf.life
		if held != nil {
			p := held()
			if p == nil {
				return fmt.Errorf("%s: %w", inf.cfg.Name, ErrOutOfScope)
			}
			life = p.ctx
		}
		err := waitWithin(ctx, life, wait)
		if err == nil {
			return nil
		}
		if life.Err() == nil || inf.life.Err() != nil || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", inf.cfg.Name, err)
		}
	}
}

// waitWithin ends a wait with ErrStopped when life ends.
func waitWithin(ctx, life context.Context, wait func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(life, func() { cancel(ErrStopped) })()
	return wait(ctx)
}

// partOf returns the part that lists and watches the namespace; nil if there is none.
func (inf *Informer[T]) partOf(namespace string) *part[T] {
	for _, p := range inf.currentParts() {
		if p.namespace == namespace || p.namespace == "" {
			return p
		}
	}
	return nil
}
