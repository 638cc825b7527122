package shards

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errRewritten says that the table is not what follows from what this member has seen.
var errRewritten = errors.New("the table was rewritten, as by a restore from a backup")

// step reads all Leases, and does what follows from them. It returns when to do that again if nothing happens before.
func (t *term) step(ctx context.Context) (next time.Duration, err error) {
	retry := t.RetryPeriod / 4
	list, err := t.list(ctx)
	t.awake()
	if err != nil {
		return retry, err
	}
	for i := range list.Items {
		t.seen.note(&list.Items[i], true)
	}
	v, err := readView(list, t.Name, t.Shards)
	if err != nil {
		return retry, err
	}
	own, ok := v.members[t.name]
	switch {
	case !ok || own.lease.UID != t.uid:
		t.end(errGone)
		return retry, errGone
	case t.isRewritten(v.table):
		t.end(errRewritten)
		return retry, errRewritten
	}
	t.seen.keep(v.members)
	next = t.deleteExpired(ctx, v)
	t.adopt(v.table)
	p := t.plan(v)
	if p.write == nil {
		return next, nil
	}
	if err := t.writeTable(ctx, v.table, p.write); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			t.look() // somebody was faster
			return next, nil
		}
		return retry, err
	}
	t.look() // there may be more to do
	return next, nil
}

// isRewritten reports whether the table cannot be one that came after the last one that this member knows.
func (t *term) isRewritten(now *table) bool {
	if t.table == nil {
		return false
	}
	if now == nil || now.count < t.table.count || now.count == t.table.count && !slices.Equal(now.owners, t.table.owners) {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for s, h := range t.held {
		given := h.draining && h.running == 0 && t.uncertain != ""
		if now.owners[s] != t.name && !given {
			return true
		}
	}
	return false
}

// deleteExpired deletes the Leases of members that have not renewed them in time, also from v. It returns when the next
// one expires, at the latest when this member would look anyway.
func (t *term) deleteExpired(ctx context.Context, v *view) (next time.Duration) {
	next = t.RetryPeriod
	for name, m := range v.members {
		left, since := t.seen.left(m.lease, t.Duration)
		if name == t.name || left > 0 {
			if name != t.name {
				next = min(next, left)
			}
			continue
		}
		err := t.call(ctx, func(ctx context.Context) error {
			p := &metav1.Preconditions{UID: &m.lease.UID, ResourceVersion: &m.lease.ResourceVersion}
			return t.Client.Delete(ctx, name, metav1.DeleteOptions{Preconditions: p})
		})
		t.awake()
		switch {
		case err == nil || apierrors.IsNotFound(err):
			delete(v.members, name)
			t.noteUnowned(v.table, name, since)
			t.Logger.Info("another replica has gone", "replica", m.identity, "not renewed since", since)
		case apierrors.IsConflict(err): // it was renewed after all
		default:
			t.Logger.Warn("cannot delete the Lease of a replica that has gone", "lease", name, "error", err)
			next = t.RetryPeriod / 4
		}
	}
	return next
}

// adopt makes the table the one that this member knows.
func (t *term) adopt(now *table) {
	t.table, t.done = now, true
	version := noVersion
	if now != nil {
		version = now.lease.ResourceVersion
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.held {
		if now == nil || now.owners[s] != t.name {
			delete(t.held, s)
			t.stats.Given++
		}
	}
	if version != t.uncertain {
		t.uncertain = ""
	}
}

// plan decides what to do, and does what concerns only this member.
func (t *term) plan(v *view) plan {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := planFor(v, holdings{
		me: t.name, layout: t.layout(),
		held:      func(s int) bool { return t.held[s] != nil },
		draining:  func(s int) bool { return t.held[s].draining },
		idle:      func(s int) bool { return t.held[s].running == 0 },
		uncertain: t.uncertain != "",
	}, t.Shards)
	for _, s := range p.take {
		t.take(s)
	}
	for _, s := range p.drain {
		t.held[s].draining = true
		if t.held[s].running == 0 {
			t.look()
		}
	}
	for _, s := range p.resume {
		t.gains++
		t.held[s].draining, t.held[s].gain = false, t.gains // what runs there goes on
	}
	t.noteView(v)
	if len(p.take)+len(p.drain)+len(p.resume) > 0 {
		t.noteChange()
	}
	return p
}

// writeTable writes the table that comes after before. If it succeeds, what it says holds.
func (t *term) writeTable(ctx context.Context, before *table, owners []string) error {
	next := &table{layout: t.layout(), owners: owners}
	precondition := noVersion
	if before != nil {
		precondition = before.lease.ResourceVersion
	}
	t.uncertain = precondition
	var written *coordinationv1.Lease
	err := t.call(ctx, func(ctx context.Context) (err error) {
		written, err = t.write(ctx, next.next(before, t.Name))
		return err
	})
	t.awake()
	t.noteWrite(err)
	if err != nil {
		if isDefinite(err) {
			t.uncertain = ""
		}
		return fmt.Errorf("table of shards: %w", err)
	}
	now, err := readTable(written, t.Shards)
	if err != nil {
		return err
	}
	t.adopt(now)
	return nil
}

// isDefinite reports whether the error says that a write has not happened and will not.
func isDefinite(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
}
