package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
)

// SetNamespaces changes the namespaces of the informer, which must be distinct. Added namespaces
// are listed separately, the objects of removed ones are reported to the handlers as deleted, and
// the others continue undisturbed, even if another part lists them from now on. It waits until ctx
// ends for the requests of removed parts.
func (inf *Informer[T]) SetNamespaces(ctx context.Context, namespaces []string) error {
	gone, err := inf.changeNamespaces(namespaces)
	if err != nil {
		return err
	}
	inf.keepBudget()
	inf.notify()
	var ends []usercode.Ending
	for _, p := range gone {
		p.cancel()
		ends = append(ends, usercode.Ending{Done: p.done, By: &p.caller})
	}
	if _, err := usercode.Await(ctx, ends); err != nil {
		return &StopError{Resource: inf.cfg.Name, Err: err}
	}
	return nil
}

// changeNamespaces changes the parts to those of the namespaces, and returns the parts to wait for. All of it happens
// under both locks, so that no snapshot and no handler sees half of the change.
func (inf *Informer[T]) changeNamespaces(namespaces []string) (gone []*part[T], err error) {
	inf.apply.Lock()
	defer inf.unlockApply()
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.phase == stopping {
		return nil, fmt.Errorf("%s: set namespaces: %w", inf.cfg.Name, ErrStopped)
	}
	before := inf.cfg.Namespaces
	inf.cfg.Namespaces = namespaces
	if inf.phase == notStarted {
		return nil, nil
	}
	added := slices.DeleteFunc(slices.Clone(namespaces), func(ns string) bool { return slices.Contains(before, ns) })
	changed := false
	defer func() { // also if the function that makes the sources panics
		if !changed {
			inf.cfg.Namespaces = before
		}
	}()
	parts, err := inf.newParts(added)
	if err != nil {
		return nil, err
	}
	changed = true
	gone = inf.changeParts(parts, func(p *part[T]) bool { return !slices.Contains(namespaces, p.namespace) })
	inf.checkSynced()
	return gone, nil
}

// changeParts adds parts and runs them, removes others, and notifies the handlers of the objects
// that are gone. Objects that a removed and an added part have in common stay. apply and mu are
// held.
func (inf *Informer[T]) changeParts(added []*part[T], drop func(*part[T]) bool) (gone []*part[T]) {
	txn := inf.writer.Begin()
	defer txn.Abort()
	txn.LeaveFolded(memory.FoldBatch)
	if len(inf.subs) == 0 {
		txn.Silence()
	}
	for _, p := range added { // first, since Drop keeps the objects of parts that are tracked
		txn.Track(p.namespace)
	}
	var kept []*part[T]
	var notes []object.Delta[T]
	for _, p := range inf.parts {
		if !drop(p) {
			kept = append(kept, p)
			continue
		}
		p.removed = true
		inf.newestRemoved = object.MaxResourceVersion(inf.newestRemoved, p.newest())
		inf.noteRemoved(p)
		gone = append(gone, p)
		notes = append(notes, txn.Drop(p.namespace)...)
	}
	for _, p := range added {
		p.beginning.inherit(inf.newestIn(p.namespace), inf.removedAt(p.namespace))
	}
	inf.parts, inf.running = append(kept, added...), append(slices.Clip(inf.running), added...)
	removed := txn.Removed()
	version := txn.Commit().ResourceVersion()
	inf.pushRemoved(inf.subs, removed)
	inf.push(inf.subs, notes, version)
	for _, p := range added {
		inf.wg.Go(p.run)
	}
	return gone
}

// removedTTL is how long a removed namespace is remembered: longer than a replica of a server lags behind.
const removedTTL = time.Hour

// removal says when a namespace was removed: handlers were notified at that version that its objects are gone.
type removal struct {
	version string
	at      time.Time
}

// noteRemoved remembers that a part is removed. apply is held.
func (inf *Informer[T]) noteRemoved(p *part[T]) {
	if inf.removals == nil {
		inf.removals = map[string]removal{}
	}
	inf.forgetRemoved()
	inf.removals[p.namespace] = removal{object.MaxResourceVersion(p.newest(), p.beginning.notBefore), time.Now()}
}

// forgetRemoved forgets removals that are older than removedTTL. apply is held.
func (inf *Informer[T]) forgetRemoved() {
	maps.DeleteFunc(inf.removals, func(_ string, r removal) bool { return time.Since(r.at) > removedTTL })
}

// removedAt returns the newest version at which objects of a namespace, "" for all, were lately removed. apply is held.
func (inf *Informer[T]) removedAt(namespace string) (version string) {
	inf.forgetRemoved()
	for of, r := range inf.removals {
		if of == namespace || of == "" || namespace == "" {
			version = object.MaxResourceVersion(version, r.version)
		}
	}
	return version
}

// newestIn returns the newest version of the parts that overlap an added namespace, "" for all.
// There is no part of exactly that namespace. apply and mu are held.
func (inf *Informer[T]) newestIn(namespace string) (version string) {
	for _, p := range inf.parts {
		if namespace == "" || p.namespace == "" {
			version = object.MaxResourceVersion(version, p.newest())
		}
	}
	return version
}

// Namespaces returns the namespaces of the informer; "" is all of them.
func (inf *Informer[T]) Namespaces() []string {
	inf.mu.Lock()
	defer inf.mu.Unlock()
	return inf.cfg.Namespaces
}
