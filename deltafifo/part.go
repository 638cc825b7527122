package deltafifo

import (
	"slices"
	"time"

	"github.com/tidings/tidings/object"
)

// part is what a queue has pending for one part of the collection: a Replace first, if there is one, then
// single changes.
type part[T object.Object] struct {
	part Part
	// replaced is set once a Replace has been popped.
	replaced bool
	// waits is set while the part is in Queue.waiting, since when in since.
	waits bool
	since time.Time

	replace *replacement[T]
	deltas  []object.Delta[T]
	// version is what deltas bring the part to.
	version string
	// places is nil while changes are kept one by one. Once there are too many, it leads from each key to its
	// entries in deltas, and changes are merged. An entry of Type 0 is empty.
	places map[object.Key]place
	merged int
}

// place says where the entries of a key are in part.deltas: the last, and one before it or none.
//
// Invariant: an entry before the last one is a Deleted.
type place struct {
	last   int
	second bool // there is another one, and last is the second of the two
}

func (p *part[T]) length() int {
	n := len(p.deltas)
	if p.replace != nil {
		n += len(p.replace.items)
	}
	return n
}

// add appends or merges a change.
func (p *part[T]) add(d *object.Delta[T], limit int) {
	if p.places == nil {
		if len(p.deltas) < limit {
			p.deltas = append(p.deltas, *d)
			return
		}
		p.coalesce()
	}
	p.merge(d)
}

// coalesce merges what has been kept one by one so far.
func (p *part[T]) coalesce() {
	singles := p.deltas
	p.places = make(map[object.Key]place, len(singles))
	p.deltas = singles[:0] // merge never appends more than it has read
	for i := range singles {
		d := singles[i]
		p.merge(&d)
	}
	clear(singles[len(p.deltas):])
}

// merge brings a change together with what is pending for its key.
func (p *part[T]) merge(d *object.Delta[T]) {
	at, ok := p.places[d.Key]
	if !ok {
		p.places[d.Key] = place{last: len(p.deltas)}
		p.deltas = append(p.deltas, *d)
		return
	}
	last := &p.deltas[at.last]
	switch {
	case last.Type == object.Deleted && d.Type != object.Deleted && d.Type != object.Sync && anotherObject(last.Object, d.Object):
		// The end of one object, the beginning of another: both are kept.
		p.places[d.Key] = place{last: len(p.deltas), second: true}
		p.deltas = append(p.deltas, *d)
		return
	case at.second && last.Type == 0:
		if d.Type != object.Deleted && d.Type != object.Sync {
			*last = *d
			return
		}
	case at.second && d.Type == object.Deleted:
		// It came and went behind a deletion: the consumer never had it.
		*last = object.Delta[T]{Key: d.Key}
	default:
		mergeInto(last, d)
	}
	p.merged++
}

// mergeInto merges d into the pending change last of the same key.
func mergeInto[T object.Object](last, d *object.Delta[T]) {
	switch {
	case last.Type == object.Sync || d.Type == object.Deleted:
		*last = *d
	case d.Type == object.Sync:
		// The pending change says more, and what a resync sees is no newer.
	case last.Type == object.Deleted:
		// The same object is back: it had left the selection only.
		*last = *d
		last.Type = object.Updated
	case !object.OlderResourceVersion(d.Object.GetResourceVersion(), last.Object.GetResourceVersion()):
		last.Object = d.Object
	}
}

// anotherObject reports whether a and b, of one key, are known to be two objects and not versions of one.
func anotherObject[T object.Object](a, b T) bool {
	return a.GetUID() != b.GetUID() && a.GetUID() != "" && b.GetUID() != ""
}

// takeMerged returns how many changes have been merged since it was last called.
func (p *part[T]) takeMerged() int {
	n := p.merged
	p.merged = 0
	return n
}

// takeDeltas moves the single changes out, and returns the version that they lead to.
func (p *part[T]) takeDeltas() ([]object.Delta[T], string) {
	deltas, version := p.deltas, p.version
	if p.places != nil {
		deltas = slices.DeleteFunc(deltas, func(d object.Delta[T]) bool { return d.Type == 0 })
	}
	p.reset()
	return deltas, version
}

// reset forgets all that is pending and returns the buffer that held the single changes.
func (p *part[T]) reset() []object.Delta[T] {
	deltas := p.deltas
	p.replace, p.deltas, p.places, p.version = nil, nil, nil, ""
	return deltas
}
