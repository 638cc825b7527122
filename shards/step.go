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

// Why a term ends.
var (
	// errRewritten says that the table is not what follows from what this member has seen.
	errRewritten = errors.New("the table was rewritten, as by a restore from a backup")
	errElected   = errors.New("the table's Lease was taken by an election")
)

// step reads all Leases, and does what follows from them. It returns when to do that again if nothing happens before.
func (t *term) step(ctx context.Context) (next time.Duration, err error) {
	retry := t.RetryPeriod / 4
	v, err := t.read(ctx)
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
	case v.leader != "" && t.hasShards():
		t.end(errElected)
		return retry, errElected
	}
	t.seen.keep(v.members, t.Name)
	next = t.deleteExpired(ctx, v)
	if v.unreadable != nil {
		return retry, t.repair(ctx, v)
	}
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

// read reads all Leases.
func (t *term) read(ctx context.Context) (*view, error) {
	list, err := t.list(ctx, t.selected())
	if err != nil {
		return nil, err
	}
	v := readView(list, t.Name, t.Shards)
	if v.table == nil {
		if list, v, err = t.readElection(ctx, list, v); err != nil {
			return nil, err
		}
	}
	for i := range list.Items {
		t.seen.note(&list.Items[i], true)
	}
	v.leader = t.leaderOf(v.table)
	return v, nil
}

// readElection adds the Lease that has the table's name, but not the label, such as that of an election that the program
// used before.
func (t *term) readElection(
	ctx context.Context, list *coordinationv1.LeaseList, v *view,
) (*coordinationv1.LeaseList, *view, error) {
	named, err := t.list(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + t.Name})
	if err != nil || len(named.Items) == 0 || named.Items[0].Labels[groupLabel] == t.Name {
		return list, v, err
	}
	// A member that the table names may only count as gone if it is not in a list that is at least as new as the table.
	if list, err = t.list(ctx, t.selected()); err != nil {
		return nil, nil, err
	}
	if v = readView(list, t.Name, t.Shards); v.table == nil {
		list.Items = append(list.Items, named.Items[0])
		v = readView(list, t.Name, t.Shards)
	}
	return list, v, nil
}

// leaderOf returns who holds the table's Lease, if that belongs to an election whose leader has renewed it in time.
func (t *term) leaderOf(now *table) string {
	if now == nil || holderOf(now.lease) == tableHolder {
		return ""
	}
	if left, _ := t.seen.left(now.lease, t.Duration); left <= 0 {
		return ""
	}
	return holderOf(now.lease)
}

// isRewritten reports whether the table cannot be one that came after the last one that this member knows.
func (t *term) isRewritten(now *table) bool {
	if t.table == nil {
		return false
	}
	if now == nil || now.count < t.table.count {
		return true
	}
	if now.owners == nil {
		return false
	}
	if now.count == t.table.count && !slices.Equal(now.owners, t.table.owners) {
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

// deleteExpired deletes the Leases of members that have not renewed them in time, and those that this process has
// abandoned, also from v. It returns when the next one expires, at the latest when this member would look anyway.
func (t *term) deleteExpired(ctx context.Context, v *view) (next time.Duration) {
	next = t.RetryPeriod
	for name, m := range v.members {
		left, since := t.seen.left(m.lease, t.Duration)
		if slices.Contains(t.abandoned, name) {
			left = 0
		}
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
			t.Logger.Info("a member has gone", "member", name, "replica", m.identity, "not renewed since", since)
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
	t.claims = ""
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
