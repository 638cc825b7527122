package reflector

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

const (
	// maxSkippedNamed is how many skipped objects Status names.
	maxSkippedNamed = 100
	// lostEvery is the minimum interval between relists because of events whose objects cannot be identified.
	lostEvery = time.Minute
	// strangerAfter is how long after a stranger a relist follows.
	strangerAfter = 5 * time.Second
)

// Skipped is an object whose present state could not be decoded. The sink keeps its previous state, if any.
type Skipped struct {
	Key object.Key
	// Err is an *source.ObjectError.
	Err error
	// Since is when it was first skipped.
	Since time.Time
}

// skipped holds the skipped objects of the sink's collection. The same rule applies to lists and
// watches: the sink's state of an object is kept until there is a later state, a deletion, or a
// list without the key.
type skipped[T object.Object] struct {
	objects map[object.Key]Skipped
	// These say that objects were added since they were announced, and that any changed since they were published.
	added, changed bool
	// relistAt is when to relist because of an event whose object cannot be identified, or a
	// stranger; zero if there is none. relisted is when that last happened.
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
	s.added, s.changed = true, true
}

// clear records that an object has come in a state of the given version, or is gone. An event that
// is older than the skipped state, which a server may repeat, changes nothing.
func (s *skipped[T]) clear(key object.Key, version string) {
	if len(s.objects) == 0 {
		return
	}
	entry, ok := s.objects[key]
	if e, known := objectError(entry.Err); !ok || known && object.OlderResourceVersion(version, e.ResourceVersion) {
		return
	}
	delete(s.objects, key)
	s.changed = true
}

// announceSkipped adds newly skipped objects to the status. It is called before the sink gets what
// came with them, and publishSkipped after that. So an object that the server has is always in the
// sink or named in the status, whichever of the two is looked at last.
func (r *Reflector[T]) announceSkipped() {
	s := &r.skipped
	if !s.added {
		return
	}
	s.added = false
	all := maps.Clone(s.objects)
	if before := r.status.skipped.Load(); before != nil {
		for key, entry := range before.all {
			if _, ok := all[key]; !ok {
				all[key] = entry
			}
		}
	}
	r.status.skipped.Store(newSkippedStatus(all))
}

// publishSkipped removes what is no longer skipped from the status.
func (r *Reflector[T]) publishSkipped() {
	if r.skipped.changed {
		r.skipped.changed = false
		r.status.skipped.Store(newSkippedStatus(maps.Clone(r.skipped.objects)))
	}
}

// Skipped returns what is wrong with the object under key if its present state could not be
// decoded. It may be called from any goroutine and takes no lock.
func (r *Reflector[T]) Skipped(key object.Key) (Skipped, bool) {
	st := r.status.skipped.Load()
	if st == nil {
		return Skipped{}, false
	}
	entry, ok := st.all[key]
	return entry, ok
}

// skippedStatus is what readers see of the skipped objects. It is immutable.
type skippedStatus struct {
	all   map[object.Key]Skipped
	named []Skipped // the first by key
}

func newSkippedStatus(all map[object.Key]Skipped) *skippedStatus {
	named := sortedSkipped(all)
	return &skippedStatus{all: all, named: slices.Clone(named[:min(len(named), maxSkippedNamed)])}
}

func sortedSkipped(all map[object.Key]Skipped) []Skipped {
	return slices.SortedFunc(maps.Values(all), func(a, b Skipped) int { return a.Key.Compare(b.Key) })
}

// objectError returns the ObjectError in err, and whether there is one with a key.
func objectError(err error) (*source.ObjectError, bool) {
	e, ok := errors.AsType[*source.ObjectError](err)
	return e, ok && e.Key.Name != ""
}

// skipItem handles an item of a list that cannot be decoded.
func (r *Reflector[T]) skipItem(e *source.ObjectError) {
	if r.list.skip(e) {
		r.reportInvalid(e, true)
	}
}

// skipInitial skips an initial event that cannot be decoded. It returns an error if the object cannot be identified.
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

// keepSkipped adds the sink's states of skipped objects to the gathered collection.
func (r *Reflector[T]) keepSkipped() {
	before := r.skipped.objects
	r.skipped.objects, r.skipped.changed = nil, r.skipped.changed || len(before) > 0
	if len(r.list.skipped) == 0 {
		return
	}
	r.list.buildIndex()
	for key, err := range r.list.skipped {
		r.skipped.add(key, err)
		if entry, ok := before[key]; ok {
			entry.Err = err
			r.skipped.objects[key] = entry
		}
		_, gathered := r.list.index[key]
		if held, ok := r.holder.Held(key); ok && !gathered {
			r.list.begin()
			r.list.items.Add(intake.Received[T]{Object: held})
		}
	}
	r.announceSkipped()
	first := sortedSkipped(r.skipped.objects)[0]
	r.logRarely(slogWarn, "objects that cannot be decoded were skipped; their last known states are kept",
		"skipped", len(r.skipped.objects), "first", first.Err)
}

// skipEvent skips an event of a watch that cannot be decoded. A deletion still deletes the last
// known state. An event that is older than that state, which a server may repeat, says nothing
// about the object.
func (r *Reflector[T]) skipEvent(b *changes[T], ev source.Event[T]) {
	e, keyed := objectError(ev.Err)
	r.reportInvalid(ev.Err, keyed)
	if !keyed {
		b.lost = true
		return
	}
	obj, held := r.lastState(b, e.Key)
	switch {
	case e.Event == source.Bookmark:
	case held && object.OlderResourceVersion(e.ResourceVersion, obj.GetResourceVersion()):
	case e.Event == source.Deleted:
		r.skipped.clear(e.Key, e.ResourceVersion)
		if held {
			gone := object.Delta[T]{Key: e.Key, Object: obj, Type: object.Deleted, FinalStateUnknown: true}
			b.changes = append(b.changes, intake.Change[T]{Delta: gone})
		}
	default:
		r.skipped.add(e.Key, e)
	}
}

// lastState returns the last known state of an object: from the same batch, or else from the sink.
// It is not ok if there is none.
func (r *Reflector[T]) lastState(b *changes[T], key object.Key) (obj T, ok bool) {
	for _, c := range slices.Backward(b.changes) {
		switch {
		case c.Key != key:
		case c.Type == object.Deleted:
			return obj, false
		case c.Unchanged:
			return r.holder.Held(key)
		default:
			return c.Object, true
		}
	}
	return r.holder.Held(key)
}

// lostEvents records whether the sink is missing an event whose object cannot be identified, which
// leads to a relist at most every lostEvery.
func (r *Reflector[T]) lostEvents(lost bool) {
	s := &r.skipped
	now := time.Now()
	switch {
	case !lost:
		s.relistAt = time.Time{}
		r.status.lost.Store(false)
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

// relistSoon schedules a relist because of a stranger, when others have had the time to come, and
// at most every lostEvery.
func (r *Reflector[T]) relistSoon() {
	s := &r.skipped
	if !s.relistAt.IsZero() {
		return
	}
	now := time.Now()
	s.relistAt = now.Add(strangerAfter)
	if again := s.relisted.Add(lostEvery); !s.relisted.IsZero() && again.After(s.relistAt) {
		s.relistAt = again
	}
	r.stream.extend(r.watchTimeLeft())
}

// relistDue reports whether it is time to relist.
func (r *Reflector[T]) relistDue() bool {
	s := &r.skipped
	now := time.Now()
	if s.relistAt.IsZero() || now.Before(s.relistAt) {
		return false
	}
	s.relisted = now
	return true
}

// untilRelist returns how long a watch may stay open: for d, or until a relist is due.
func (r *Reflector[T]) untilRelist(d time.Duration) time.Duration {
	if at := r.skipped.relistAt; !at.IsZero() {
		d = min(d, time.Until(at))
	}
	return d
}
