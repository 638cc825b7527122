package tidings

import (
	"context"
	"fmt"
)

// HasSynced reports whether the initial list is in the store.
func (inf *SharedInformer[T]) HasSynced() bool { return inf.core.hasSynced() }

// Synced returns a channel that is closed when the initial list is in the store.
func (inf *SharedInformer[T]) Synced() <-chan struct{} { return inf.core.synced }

// WaitForSync returns when the initial list is in the store. If ctx ends first it returns a *SyncError that says
// what is in the way, in one line. It does not wait for an informer that is not running.
func (inf *SharedInformer[T]) WaitForSync(ctx context.Context) error {
	return inf.core.waitForSync(ctx, false)
}

// WaitForSyncFailFast is WaitForSync that returns at once when something is in the way that cannot heal by itself: a
// missing permission, resource or certificate. The informer goes on trying all the same.
func (inf *SharedInformer[T]) WaitForSyncFailFast(ctx context.Context) error {
	return inf.core.waitForSync(ctx, true)
}

func (c *core[T]) waitForSync(ctx context.Context, failFast bool) error {
	for {
		c.mu.Lock()
		news := c.news
		c.mu.Unlock()
		if c.hasSynced() {
			return nil
		}
		if err := c.checkRunning(); err != nil {
			return err
		}
		if err := c.syncError(nil); failFast && err.Permanent() {
			return err
		}
		select {
		case <-c.synced:
		case <-news:
		case <-c.life.Done():
			return c.syncError(context.Cause(c.life))
		case <-ctx.Done():
			return c.syncError(context.Cause(ctx))
		}
	}
}

// checkRunning returns an error if waiting for this informer would be in vain.
func (c *core[T]) checkRunning() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.phase {
	case notStarted:
		return fmt.Errorf("%s: %w", c.name, ErrNotStarted)
	case stopping:
		return fmt.Errorf("%s: %w", c.name, ErrStopped)
	}
	return nil
}

// syncError says what is in the way of the part that is worst off; wait is what ended the wait.
func (c *core[T]) syncError(wait error) *SyncError {
	c.mu.Lock()
	parts := c.parts
	c.mu.Unlock()
	e := &SyncError{Resource: c.name, Wait: wait, Progress: "starting"}
	for _, p := range parts {
		st := p.reflector.Status()
		if !st.SyncedSince.IsZero() {
			continue
		}
		e.Progress = fmt.Sprintf("%s, %d objects so far", st.Phase, st.Gathered)
		if failed := p.failed.Load(); failed != nil && (e.Cause == nil || failed.Permanent()) {
			e.Cause = failed
			if len(parts) > 1 {
				e.Namespace = p.namespace
			}
		}
	}
	return e
}
