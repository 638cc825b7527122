package reflector

import (
	"errors"
	"slices"
	"time"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

const (
	// mostSkippedNamed is how many skipped objects Status names.
	mostSkippedNamed = 100
	// lostEvery is how often events that could be of any object lead to a relist.
	lostEvery = time.Minute
)

// Skipped is an object whose present state could not be decoded. What the sink held of it before is kept.
type Skipped struct {
	Key object.Key
	// Err is an *source.ObjectError.
	Err error
	// Since is when it was first skipped.
	Since time.Time
}

// skipped are the objects of the sink's collection that were skipped. One rule holds for lists and watches: what the sink
// holds of a key is kept until a later state, a deletion, or a list without the key.
type skipped[T object.Object] struct {
	objects map[object.Key]Skipped
	changed bool // since Status was told
	// relistAt is when an event that could be of any object leads to a relist; zero if there was none. relisted is when
	// the last one did.
	relistAt, relisted time.Time
}

func (s *skipped[T]) add(key object.Key, err error) {
	if s.objects == nil {
		s.objects = map[object.Key]Skipped{}
	}
	entry := Skipped{Key: key, Err: err, Since: time.Now()}
	if before, ok := s.objects[key]; ok {
		entry.Since = before.Since
	}
	s.objects[key] = entry
	s.changed = true
}

func (s *skipped[T]) clear(key object.Key) {
	if len(s.objects) == 0 {
		return
	}
	if _, ok := s.objects[key]; ok {
		delete(s.objects, key)
		s.changed = true
	}
}

// named returns the first of them by key.
func (s *skipped[T]) named() []Skipped {
	all := make([]Skipped, 0, len(s.objects))
	for _, entry := range s.objects {
		all = append(all, entry)
	}
	slices.SortFunc(all, func(a, b Skipped) int { return a.Key.Compare(b.Key) })
	return slices.Clone(all[:min(len(all), mostSkippedNamed)])
}

// publishSkipped copies what has changed to the status.
func (r *Reflector[T]) publishSkipped() {
	if r.skipped.changed {
		r.skipped.changed = false
		r.status.skipped.Store(&skippedStatus{named: r.skipped.named(), total: len(r.skipped.objects)})
	}
}

// objectError returns the part of err that names an object.
func objectError(err error) (*source.ObjectError, bool) {
	e, ok := errors.AsType[*source.ObjectError](err)
	return e, ok && e.Key.Name != ""
}

// skipItem is told of an item of a list that cannot be decoded.
func (r *Reflector[T]) skipItem(e *source.ObjectError) {
	if r.list.skip(e) {
		r.reportInvalid(e, true)
	}
}

// skipInitial skips an initial event that cannot be decoded. It is an error if nobody can tell of what object it is.
func (r *Reflector[T]) skipInitial(ev source.Event[T]) error {
	e, keyed := objectError(ev.Err)
	if !keyed {
		r.status.invalid.Add(1)
		return invalidError{ev.Err}
	}
	switch e.Event {
	case source.Bookmark:
	case source.Deleted:
		r.list.remove(e.Key)
	default:
		r.skipItem(e)
		return nil
	}
	r.reportInvalid(e, true)
	return nil
}

// keepSkipped completes a gathered collection with what the sink holds of the objects that were skipped.
func (r *Reflector[T]) keepSkipped() {
	before := r.skipped.objects
	r.skipped.objects, r.skipped.changed = nil, r.skipped.changed || len(before) > 0
	if len(r.list.skipped) == 0 {
		r.publishSkipped()
		return
	}
	r.list.index()
	for key, err := range r.list.skipped {
		r.skipped.add(key, err)
		if entry, ok := before[key]; ok {
			entry.Err = err
			r.skipped.objects[key] = entry
		}
		_, gathered := r.list.at[key]
		if held, ok := r.held(key); ok && !gathered {
			r.list.begin()
			r.list.items.Add(held)
		}
	}
	r.publishSkipped()
	first := r.status.skipped.Load().named[0]
	r.logRarely(slogWarn, "objects that cannot be decoded were skipped; what was known of them is kept",
		"skipped", len(r.skipped.objects), "first", first.Err)
}

// held returns what the sink holds of a key.
func (r *Reflector[T]) held(key object.Key) (obj T, ok bool) {
	if r.opts.Held == nil {
		return obj, false
	}
	return r.opts.Held(key)
}

// skipEvent skips an event of a watch that cannot be decoded. A deletion deletes what is known of the object.
func (r *Reflector[T]) skipEvent(b *changes[T], ev source.Event[T], left int) {
	e, keyed := objectError(ev.Err)
	r.reportInvalid(ev.Err, keyed)
	switch {
	case !keyed:
		b.lost = true
	case e.Event == source.Bookmark:
	case e.Event == source.Deleted:
		r.skipped.clear(e.Key)
		if obj, ok := r.lastState(b, e); ok {
			b.add(object.Delta[T]{Key: e.Key, Object: obj, Type: object.Deleted, FinalStateUnknown: true}, left)
		}
	default:
		r.skipped.add(e.Key, e)
	}
}

// lastState returns the state before the deletion that e stands for: from the same batch, or else what the sink holds. It
// is not ok if there is none, or if it is newer.
func (r *Reflector[T]) lastState(b *changes[T], e *source.ObjectError) (obj T, ok bool) {
	for i := len(b.deltas) - 1; i >= 0; i-- {
		if d := b.deltas[i]; d.Key == e.Key {
			return d.Object, d.Type != object.Deleted
		}
	}
	obj, ok = r.held(e.Key)
	return obj, ok && !object.OlderResourceVersion(e.ResourceVersion, obj.GetResourceVersion())
}

// lostEvents notes that the sink misses what nobody can tell, or no longer does. It leads to a relist, now and then.
func (r *Reflector[T]) lostEvents(lost bool) {
	s := &r.skipped
	now := time.Now()
	switch {
	case !lost:
		s.relistAt = time.Time{}
	case s.relistAt.IsZero():
		s.relistAt = now
		if again := s.relisted.Add(lostEvery); !s.relisted.IsZero() && again.After(now) {
			s.relistAt = again
			r.stream.extend(again.Sub(now))
			return
		}
		s.relisted = now
		r.closeStream()
		r.backOff(r.retry.spread(shortSpread), Starting, "")
	}
}

// relistDue tells whether the sink misses something that a relist is now to bring.
func (r *Reflector[T]) relistDue() bool {
	s := &r.skipped
	now := time.Now()
	if s.relistAt.IsZero() || now.Before(s.relistAt) {
		return false
	}
	s.relisted = now
	return true
}

// patience is how long a watch may stay open: for d, or until a relist is due.
func (r *Reflector[T]) patience(d time.Duration) time.Duration {
	if at := r.skipped.relistAt; !at.IsZero() {
		d = min(d, time.Until(at))
	}
	return d
}
