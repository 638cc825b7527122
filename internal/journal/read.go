package journal

import (
	"errors"
	"fmt"
	"iter"
	"sort"
	"time"

	"github.com/tidings/tidings/object"
)

// Point is a point in the history of a collection: after all changes up to a version, or up to a moment.
type Point struct {
	version string
	moment  int64
}

// Version returns the point after all changes up to a resource version, which must be a decimal number.
func Version(version string) Point { return Point{version: version} }

// Moment returns the point after all changes that were seen up to t.
func Moment(t time.Time) Point { return Point{moment: t.UnixNano()} }

// At returns the state of an object at a point: its last change up to there, which is not a
// deletion. It returns ErrNotFound if there was no such object, ErrTooOld if the point is before
// the beginning of the journal, and ErrVersion if it is invalid. The latest state is what is
// returned for any point after it.
func (j *Journal) At(key object.Key, at Point) (Change, error) {
	v := j.current.Load()
	l, err := at.limit(v)
	if err != nil {
		return Change{}, err
	}
	found, ok := v.objects.Load(key)
	if !ok {
		return Change{}, j.missing(l)
	}
	return j.read(found.(*record), l)
}

// All returns the state of every object at a point, in no particular order. It ends after the first
// error: ErrTooOld if the point is before the beginning of the journal, also if the journal drops
// it while this is read, and ErrVersion if it is invalid.
func (j *Journal) All(at Point) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		v := j.current.Load()
		l, err := at.limit(v)
		if err != nil {
			yield(Change{}, err)
			return
		}
		for _, found := range v.objects.Range {
			c, err := j.read(found.(*record), l)
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
		if err := j.missing(l); !errors.Is(err, ErrNotFound) { // what it dropped may have been among them
			yield(Change{}, err)
		}
	}
}

// Since returns every change after a resource version, in order, up to the last one that has been
// added when the iteration begins. It ends after the first error: ErrTooOld if changes after the
// version have been dropped, also if the journal drops them while this is read, and ErrVersion if
// it is invalid.
func (j *Journal) Since(version string) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		v := j.current.Load()
		after, err := parse(version)
		if err == nil && after < v.beginVersion {
			err = ErrTooOld
		}
		if err != nil {
			yield(Change{}, err)
			return
		}
		start := sort.Search(int(v.next-v.first), func(i int) bool { return v.at(v.first+uint64(i)).version > after })
		for seq := v.first + uint64(start); seq < v.next; seq++ {
			c, err := v.at(seq).change()
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// limit selects the entries up to a point.
type limit struct {
	next    uint64 // entries from here on have been added since the read began
	point   Point
	version uint64 // of the point
}

// limit returns ErrTooOld if the point is before the beginning.
func (p Point) limit(v *view) (l limit, err error) {
	l = limit{next: v.next, point: p}
	if p.version != "" {
		if l.version, err = parse(p.version); err != nil {
			return l, err
		}
	}
	if l.isBefore(v) {
		return l, ErrTooOld
	}
	return l, nil
}

func (l limit) isBefore(v *view) bool {
	if l.point.version != "" {
		return l.version < v.beginVersion
	}
	return l.point.moment < v.beginTime
}

// includes reports whether an entry is not after the limit. If it includes an entry, it includes
// the earlier ones of the object.
func (l limit) includes(e *entry) bool {
	switch {
	case e.seq == 0:
		return true
	case e.seq >= l.next:
		return false
	case l.point.version != "":
		return e.version <= l.version
	default:
		return e.time <= l.point.moment
	}
}

// missing returns the reason why an object is not found.
func (j *Journal) missing(l limit) error {
	if l.isBefore(j.current.Load()) { // by now
		return ErrTooOld
	}
	return ErrNotFound
}

// read returns the state of an object up to a limit.
func (j *Journal) read(r *record, l limit) (Change, error) {
	h := r.state.Load()
	e, data, err := h.last(l.includes)
	if err != nil {
		return Change{}, err
	}
	if e == nil || e.kind == object.Deleted {
		// The way to an earlier entry is removed after the new beginning of the journal is visible.
		return Change{}, j.missing(l)
	}
	return e.with(data), nil
}

// change returns the change, or ErrTooOld if it has been dropped.
func (e *entry) change() (Change, error) {
	found, data, err := e.record.state.Load().last(func(other *entry) bool { return other.seq <= e.seq })
	if err != nil {
		return Change{}, err
	}
	if found != e {
		return Change{}, ErrTooOld
	}
	return e.with(data), nil
}

func (e *entry) with(data []byte) Change {
	return Change{
		Key: e.record.key, UID: e.uid, Version: format(e.version), Time: time.Unix(0, e.time), Type: e.kind, Object: data,
	}
}

// last returns the last entry that is included, and the state after it; nil if there is none, or
// none that can be reached any more.
func (h *history) last(includes func(*entry) bool) (*entry, []byte, error) {
	e, full := h.start(includes)
	data, err := full.open(nil)
	if err != nil {
		return nil, nil, fmt.Errorf("journal: %s: %w", e.record.key, err)
	}
	var spare []byte
	for !includes(e) {
		l := e.link.Load()
		if l == nil {
			return nil, nil, nil
		}
		earlier, err := apply(spare[:0], data, l.patch)
		if err != nil {
			return nil, nil, fmt.Errorf("journal: %s: %w", e.record.key, err)
		}
		e, data, spare = l.before, earlier, data
	}
	return e, data, nil
}

// start returns the whole state from which the last entry that is included can be reached with the fewest patches.
func (h *history) start(includes func(*entry) bool) (*entry, whole) {
	if includes(h.newest) {
		return h.newest, h.full
	}
	i := sort.Search(len(h.marks), func(i int) bool { return !includes(h.marks[i].entry) })
	if i == len(h.marks) {
		return h.newest, h.full
	}
	return h.marks[i].entry, h.marks[i].full
}
