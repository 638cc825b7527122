package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
)

const (
	// firstWord is how long a wait for sync says nothing; then it logs what is in the way.
	firstWord = 1500 * time.Millisecond
	// nextWord is the time between later such messages.
	nextWord = 30 * time.Second
)

// Obstacle is what keeps an informer from being synced or fresh, or ended the wait for that.
type Obstacle struct {
	// Namespace is the namespace that is worst off, where the informer has several.
	Namespace string
	// Problem is what is wrong now; nil if nothing has failed.
	Problem *reflector.Error
	// Skipped names objects that could not be decoded, of SkippedCount there are.
	Skipped      []reflector.Skipped
	SkippedCount int
	// Progress tells how far the list has come, such as "listing, 1,500 objects so far".
	Progress string
	// Wait is what ended the wait, if it did.
	Wait error
}

// HasSynced reports whether every part has had its first list. It can become false again when namespaces are added.
func (inf *Informer[T]) HasSynced() bool { return inf.everSynced() && allListed(inf.currentParts()) }

// everSynced reports whether every part there was then had had its first list at some time.
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

// WaitForSync returns nil when the informer has synced with every object. Otherwise it says what is in the way: when ctx
// or the informer ends, when objects were left out because they cannot be decoded, and at once, if failFast is set, for
// what cannot heal by itself. err is set instead if the informer does not run.
func (inf *Informer[T]) WaitForSync(ctx context.Context, failFast bool) (obstacle *Obstacle, err error) {
	word := time.NewTimer(firstWord)
	defer word.Stop()
	for {
		changed := inf.changes()
		if inf.HasSynced() {
			return inf.skippedObstacle(), nil
		}
		if err := inf.CheckRunning(); err != nil {
			return nil, err
		}
		now := inf.Obstacle()
		if failFast && now.Problem != nil && now.Problem.Permanent() {
			return now, nil
		}
		select {
		case <-changed:
		case <-word.C:
			inf.log.write(slog.LevelWarn, "waiting for sync", "progress", now.Progress, "problem", problemText(now.Problem))
			word.Reset(nextWord)
		case <-inf.life.Done():
			now.Wait = context.Cause(inf.life)
			return now, nil
		case <-ctx.Done():
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

// changes returns the channel that is closed when a part's state changes next.
func (inf *Informer[T]) changes() <-chan struct{} {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.changed
}

// CheckRunning returns an error if waiting for this informer would be in vain.
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

// Obstacle says what is in the way of the part that is worst off among those that have not synced: one whose problem cannot
// heal by itself, or else one with a problem.
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

// skippedObstacle names the objects that are missing or out of date because they could not be decoded; nil if there are none.
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

// WaitForKey returns when the store holds the object under key at the version or a newer one, or is current to the
// version where the object would be. It is ErrOutOfScope if the informer does not hold the object's namespace, or gives it up.
func (inf *Informer[T]) WaitForKey(ctx context.Context, key object.Key, version string) error {
	held := func() *part[T] { return inf.partOf(key.Namespace) }
	return inf.waitFor(ctx, held, func(ctx context.Context) error { return inf.store.WaitForKey(ctx, key, version) })
}

// WaitForVersion returns when the store is current to the version in the namespace; "" is all of them. It is ErrOutOfScope if the
// informer does not hold the namespace, or gives it up.
func (inf *Informer[T]) WaitForVersion(ctx context.Context, namespace, version string) error {
	held := func() *part[T] { return inf.partOf(namespace) }
	if namespace == "" {
		held = nil
	}
	return inf.waitFor(ctx, held, func(ctx context.Context) error { return inf.store.WaitIn(ctx, namespace, version) })
}

// waitFor waits while the informer runs and has the part that held returns, if it is set: there may be another one later.
func (inf *Informer[T]) waitFor(ctx context.Context, held func() *part[T], wait func(context.Context) error) error {
	defer inf.wait.enter()()
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

// waitWithin ends a wait when life does, with ErrStopped.
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
