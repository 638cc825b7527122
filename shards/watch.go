package shards

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watch watches the Leases until ctx ends. What it sees only says when renewals were seen, and when to look: what to do is
// decided from lists.
func (t *term) watch(ctx context.Context) {
	for {
		w, err := t.Client.Watch(ctx, t.selected())
		if err == nil {
			t.follow(ctx, w)
			w.Stop()
			t.look()
		} else if ctx.Err() == nil {
			t.Logger.Warn("cannot watch the Leases", "error", explained(err))
		}
		if !t.pause(ctx, time.Second) {
			return
		}
	}
}

// follow reads the events of a watch until it ends.
func (t *term) follow(ctx context.Context, w watch.Interface) {
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.ResultChan():
			t.awake()
			lease, isLease := e.Object.(*coordinationv1.Lease)
			if !ok || !isLease {
				return
			}
			first := t.seen.note(lease, false)
			if first || e.Type == watch.Deleted || lease.Name == t.Name || lease.Annotations[leavingKey] != "" {
				t.look()
			}
		}
	}
}
