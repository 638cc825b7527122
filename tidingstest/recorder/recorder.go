// Package recorder has a handler for tests that records its deltas and every broken promise.
package recorder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidings/tidings/object"
)

// Recorder is a handler that records every delta and the resulting state, and every promise that the deltas break; see
// Err. The zero value is ready for use, and its methods may be called from any goroutine.
type Recorder[T object.Object] struct {
	// inside is set while Delta runs, to detect concurrent calls.
	inside atomic.Bool

	mu      sync.Mutex
	changed chan struct{} // closed and replaced by each Delta; nil while nobody waits
	deltas  []object.Delta[T]
	state   map[object.Key]T
	// deleted holds the resource version at which a key was last deleted.
	deleted  map[object.Key]string
	broken   []error
	rewrites bool // going back in time breaks no promise
	rewinds  int  // number of deltas that went back in time
}

// maxBroken is the number of broken promises that are kept.
const maxBroken = 20

// AllowRewrites allows objects to go back in time. Use it if the test restores its server from a backup.
func (r *Recorder[T]) AllowRewrites() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rewrites = true
}

// Rewinds returns the number of deltas that went back in time, allowed or not.
func (r *Recorder[T]) Rewinds() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rewinds
}

// Delta records d.
func (r *Recorder[T]) Delta(d object.Delta[T]) {
	alone := r.inside.CompareAndSwap(false, true)
	r.mu.Lock()
	defer r.mu.Unlock()
	if alone {
		defer r.inside.Store(false)
	}
	if r.state == nil {
		r.state, r.deleted = map[object.Key]T{}, map[object.Key]string{}
	}
	err := errors.Join(r.check(d), r.checkOrder(d))
	if !alone {
		err = errors.Join(err, errors.New("delivered while another delta was being handled"))
	}
	if err != nil && len(r.broken) < maxBroken {
		r.broken = append(r.broken, fmt.Errorf("delta %d: %v %v: %w", len(r.deltas), d.Type, d.Key, err))
	}
	r.apply(d)
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

func (r *Recorder[T]) apply(d object.Delta[T]) {
	r.deltas = append(r.deltas, d)
	switch missing := any(d.Object) == any(*new(T)); d.Type {
	case object.Added, object.Updated, object.Replaced, object.Sync:
		if !missing {
			r.state[d.Key] = d.Object
		}
	case object.Deleted:
		delete(r.state, d.Key)
		if !missing {
			r.deleted[d.Key] = d.Object.GetResourceVersion()
		}
	}
}

// check returns what is wrong with d as the next delta.
func (r *Recorder[T]) check(d object.Delta[T]) error {
	if any(d.Object) == any(*new(T)) {
		return errors.New("it carries no object")
	}
	last, known := r.state[d.Key]
	switch {
	case object.KeyOf(d.Object) != d.Key:
		return fmt.Errorf("its object is %v", object.KeyOf(d.Object))
	case d.Initial && d.Type != object.Added:
		return errors.New("only an Added can be initial")
	case d.FinalStateUnknown && d.Type != object.Deleted:
		return errors.New("only a Deleted can be missed")
	}
	return checkType(d, last, known)
}

// checkOrder counts d if it goes back in time, and returns an error if that is not allowed.
func (r *Recorder[T]) checkOrder(d object.Delta[T]) (err error) {
	if any(d.Object) == any(*new(T)) {
		return nil
	}
	last, known := r.state[d.Key]
	version := d.Object.GetResourceVersion()
	switch {
	case known && object.OlderResourceVersion(version, last.GetResourceVersion()):
		err = fmt.Errorf("back in time from version %s to %s", last.GetResourceVersion(), version)
	case !known && object.OlderResourceVersion(version, r.deleted[d.Key]):
		err = fmt.Errorf("back in time to version %s, after it was deleted at %s", version, r.deleted[d.Key])
	default:
		return nil
	}
	r.rewinds++
	if r.rewrites {
		return nil
	}
	return err
}

// checkType returns an error if a delta of d's type must not follow the last state.
func checkType[T object.Object](d object.Delta[T], last T, known bool) error {
	switch d.Type {
	case object.Added:
		if known {
			return errors.New("it was added before, and not deleted since")
		}
	case object.Updated, object.Replaced, object.Sync:
		switch {
		case !known:
			return errors.New("it was never added, or deleted since")
		case any(d.Old) == any(*new(T)):
			return errors.New("it has no old object")
		case identity(d.Old) != identity(last):
			return fmt.Errorf("its old object is %s, but the last one was %s", identity(d.Old), identity(last))
		case d.Type == object.Updated && identity(d.Object) == identity(last):
			return fmt.Errorf("nothing changed, it was %s before", identity(last))
		case d.Type == object.Sync && identity(d.Object) != identity(last):
			return fmt.Errorf("a resync changed it from %s to %s", identity(last), identity(d.Object))
		}
	case object.Deleted:
		if !known {
			return errors.New("it was never added, or deleted before")
		}
	default:
		return errors.New("unknown type")
	}
	return nil
}

// identity identifies a version of an object.
func identity[T object.Object](o T) string {
	return fmt.Sprintf("uid %q version %q", o.GetUID(), o.GetResourceVersion())
}

// Err returns the broken promises, or nil if there are none. The promises are: a delta's object is the one under its
// key; an object is added before it is updated or deleted, and not twice; the old object of an Updated or Sync is the
// last one seen, and an Updated differs from it; no object goes back in time, not even across its deletion; deltas
// arrive one at a time. Err returns at most the first 20.
func (r *Recorder[T]) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.broken...)
}

// State returns a copy of the state that results from the deltas.
func (r *Recorder[T]) State() map[object.Key]T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.state)
}

// Deltas returns all deltas so far, in order.
func (r *Recorder[T]) Deltas() []object.Delta[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.deltas)
}

// Len returns the number of deltas so far.
func (r *Recorder[T]) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.deltas)
}

// Wait waits until condition returns true for the state. It returns an error if ctx ends first. The condition is called
// again after each delta; it must not keep the map or call the recorder.
func (r *Recorder[T]) Wait(ctx context.Context, condition func(state map[object.Key]T) bool) error {
	for {
		done, changed := r.try(condition)
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for a recorder that has %d deltas and %d objects: %w", r.Len(), len(r.State()), context.Cause(ctx))
		}
	}
}

func (r *Recorder[T]) try(condition func(map[object.Key]T) bool) (done bool, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if condition(r.state) {
		return true, nil
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return false, r.changed
}

// WaitVersions waits until the state holds exactly these objects at these resource versions, such as those of
// Server.Versions. If ctx ends first, it returns an error that describes the difference.
func (r *Recorder[T]) WaitVersions(ctx context.Context, want map[object.Key]string) error {
	err := r.Wait(ctx, func(state map[object.Key]T) bool { return difference(state, want) == "" })
	if err != nil {
		return fmt.Errorf("%w; %s", err, difference(r.State(), want))
	}
	return nil
}

// difference describes how a state differs from what is wanted; it is empty if they are equal.
func difference[T object.Object](state map[object.Key]T, want map[object.Key]string) string {
	const most = 10
	var lines []string
	for key, version := range want {
		switch o, ok := state[key]; {
		case !ok:
			lines = append(lines, fmt.Sprintf("%v is missing", key))
		case o.GetResourceVersion() != version:
			lines = append(lines, fmt.Sprintf("%v is at version %s instead of %s", key, o.GetResourceVersion(), version))
		}
	}
	for key := range state {
		if _, ok := want[key]; !ok {
			lines = append(lines, fmt.Sprintf("%v should not be there", key))
		}
	}
	slices.Sort(lines)
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("and %d more", len(lines)-most))
	}
	return strings.Join(lines, ", ")
}
