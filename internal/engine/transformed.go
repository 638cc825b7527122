package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/tidings/tidings/internal/absent"
	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/object"
)

// transformer is the user's transform for the objects of one part.
type transformer[T object.Object] struct {
	fn      func(T) (T, error) // nil without one
	sharer  codec.Sharer[T]    // of transformed objects
	leftOut absent.LeftOut     // by the transform
}

func (t *transformer[T]) init(fn func(T) (T, error), maxShared int, onStrayWrite func(field string)) {
	t.fn, t.sharer.MaxSharedBytes, t.sharer.OnStrayWrite = fn, maxShared, onStrayWrite
}

// isSet reports whether there is a transform.
func (t *transformer[T]) isSet() bool { return t.fn != nil }

// listing is called when a list begins.
func (t *transformer[T]) listing() {
	t.sharer.Recheck()
	t.leftOut.Begin()
}

// transformChanges transforms the objects of the changes. It skips an object that the store holds,
// which was transformed before and is shared. A deletion whose object could not be decoded comes
// with the previous state. What the transform leaves out becomes a deletion.
func (p *part[T]) transformChanges(changes []intake.Change[T]) {
	snap := p.inf.store.Snapshot()
	p.transform.sharer.Recheck()
	for i := range changes {
		d := &changes[i].Delta
		if d.FinalStateUnknown {
			for _, before := range slices.Backward(changes[:i]) {
				if before.Key == d.Key {
					d.Object = before.Object
					break
				}
			}
			continue
		}
		held, ok := snap.Held(d.Key)
		if ok && held.Is(d.Object) {
			continue
		}
		out, kept := p.transformed(d.Object)
		switch {
		case !kept:
			p.inFlight.leaveOut(i, len(changes), d.Type)
			d.Type = object.Deleted
		case d.Type == object.Deleted:
			d.Object = out
		default:
			d.Object = p.shared(out, held)
		}
	}
}

// transformed runs the user's transform. It restores an object's identity if the transform changed
// it. If the transform fails, the object is kept as it came, so that nothing is lost. kept is false
// if the transform leaves the object out.
func (p *part[T]) transformed(obj T) (out T, kept bool) {
	key, uid, version := object.KeyOf(obj), obj.GetUID(), obj.GetResourceVersion()
	out, err := p.callTransform(obj)
	if err != nil {
		p.transformFailed(key, "transform failed; the object is kept as it came", err)
		return obj, true
	}
	if object.IsNil(out) {
		obj.SetUID(uid) // they are still needed, and the transform may have changed them
		obj.SetResourceVersion(version)
		return out, false
	}
	if object.KeyOf(out) != key || out.GetUID() != uid || out.GetResourceVersion() != version {
		p.transformFailed(key, "the transform changed what identifies the object; only that was put back", errIdentity)
		out.SetNamespace(key.Namespace)
		out.SetName(key.Name)
		out.SetUID(uid)
		out.SetResourceVersion(version)
	}
	return out, true
}

// shared returns a transformed object that shares equal parts with others and with the state that
// the store holds, if there is one.
func (p *part[T]) shared(obj T, held store.Held[T]) T {
	previous, _ := held.Open()
	return p.transform.sharer.Share(obj, previous)
}

func (p *part[T]) callTransform(obj T) (out T, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("it panicked: %v", reason)
		}
	}()
	return p.transform.fn(obj)
}

var errIdentity = errors.New("it changed the name, namespace, uid or resourceVersion; they were put back")

// transformFailed reports an error of the user's transform, and logs what was done about it.
func (p *part[T]) transformFailed(key object.Key, what string, err error) {
	p.inf.transformErrors.Add(1)
	err = fmt.Errorf("%s %s: %w: %w", p.inf.cfg.Name, key, ErrTransform, err)
	p.inf.log.Log(slog.LevelError, what, "key", key.String(), "err", err)
	p.inf.reportError(err)
}

// transformingGatherer transforms the objects of a list as they arrive, so that what is trimmed
// from them never takes memory together.
type transformingGatherer[T object.Object] struct {
	intake.Gathering[T]
	part *part[T]
}

// Add implements intake.Gathering.
func (g transformingGatherer[T]) Add(r intake.Received[T]) (kept bool) {
	r.Object, kept = g.part.transformedListed(r.Object)
	return kept && g.Gathering.Add(r)
}

// Set implements intake.Gathering.
func (g transformingGatherer[T]) Set(i int, r intake.Received[T]) (kept bool) {
	if r.Object, kept = g.part.transformedListed(r.Object); kept {
		return g.Gathering.Set(i, r)
	}
	g.Gathering.Remove(i)
	return false
}

// transformedListed returns a listed object transformed, or as it is if the store holds it, because
// it was transformed before. kept is false if the transform leaves it out.
func (p *part[T]) transformedListed(o T) (out T, kept bool) {
	key := object.KeyOf(o)
	held, ok := p.inf.store.Snapshot().Held(key)
	if ok && held.Is(o) {
		p.transform.leftOut.NoteListed(key, false)
		return o, true
	}
	out, kept = p.transformed(o)
	p.transform.leftOut.NoteListed(key, !kept)
	if kept {
		out = p.shared(out, held)
	}
	return out, kept
}
