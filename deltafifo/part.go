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
	// purgeAt is the number of changes from which it pays to look for those that can go.
	purgeAt int
	merged  int
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
		p.coalesce(limit)
	}
	if len(p.deltas) >= p.purgeAt {
		p.purge(limit)
	}
	p.merge(d)
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
