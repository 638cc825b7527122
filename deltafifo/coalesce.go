package deltafifo

import "github.com/tidings/tidings/object"

// place says where the entries of a key are in part.deltas: the last, and one before it or none.
//
// Invariant: an entry before the last one is a Deleted.
type place struct {
	last   int
	second bool // there is another one, and last is the second of the two
	born   bool // its first change was an Added: the consumer has nothing under the key
}

// coalesce merges what has been kept one by one so far.
func (p *part[T]) coalesce(limit int) {
	p.purgeAt = 2 * limit
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
		p.places[d.Key] = place{last: len(p.deltas), born: d.Type == object.Added}
		p.deltas = append(p.deltas, *d)
		return
	}
	last := &p.deltas[at.last]
	switch {
	case last.Type == object.Deleted && d.Type != object.Deleted && d.Type != object.Sync && anotherObject(last.Object, d.Object):
		// The end of one object, the beginning of another: both are kept.
		p.places[d.Key] = place{last: len(p.deltas), second: true, born: at.born}
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

// purge drops the deletions of objects that came and went while they were pending, and the empty entries. The
// deletions would do no harm, and are kept while there is room for them. But names that never come back would
// otherwise add up without end in front of a consumer who is stuck.
func (p *part[T]) purge(limit int) {
	places := make(map[object.Key]place)
	kept := p.deltas[:0]
	for _, d := range p.deltas {
		at := p.places[d.Key]
		if d.Type == 0 || d.Type == object.Deleted && at.born {
			continue
		}
		_, second := places[d.Key]
		places[d.Key] = place{last: len(kept), second: second, born: at.born}
		kept = append(kept, d)
	}
	clear(p.deltas[len(kept):])
	p.deltas, p.places = kept, places
	p.purgeAt = 2 * max(limit, len(kept))
}
