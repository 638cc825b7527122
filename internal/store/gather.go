package store

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// Gathering collects the objects of a list for Txn.Replace, and can fold them as they come, so that
// never all are open. Only one goroutine at a time may use it.
type Gathering[T object.Object] struct {
	folding *folding[T] // nil if the store has no codec
	items   []gatheredItem[T]
	open    int // number of open items that are not stored
	// from is the index at which open items may begin; arrived is the index of the first that was
	// not taken as Arrivals.
	from    int
	arrived int
	indexes []*Index[T]
	names   names
	values  map[string]string // copies of index values
	// known is what open objects were decoded from; encodings are its bytes, concatenated.
	known     []gatheredEncoding
	encodings []byte
	patches   int // memory of the patches in known, including their templates
	// template is the template of the latest of these patches.
	template *fold.Dictionary
}

var _ object.Collection[object.Object] = (*Gathering[object.Object])(nil)

// gatheredItem is an object of a list.
type gatheredItem[T object.Object] struct {
	Held[T]
	own    bool       // packed for the gathering: the packer counts it
	stored bool       // open and already in the store, which counts it
	values [][]string // by index of the gathering; nil if not known
	// known is 1 + the index in known of what an open object was decoded from; 0 if that is not known.
	known int32
}

// Gather returns a Gathering for the store, with room for n objects.
func (s *Store[T]) Gather(n int) *Gathering[T] {
	now := s.Snapshot()
	g := &Gathering[T]{items: make([]gatheredItem[T], 0, n)}
	if now.folds != nil {
		g.folding = now.folds.folding
	}
	for i := range now.indexes {
		g.indexes = append(g.indexes, now.indexes[i].index)
	}
	return g
}

// Add appends an object.
func (g *Gathering[T]) Add(o T) {
	g.items = append(g.items, gatheredItem[T]{Held: Held[T]{key: object.KeyOf(o), object: o}})
	g.open++
}

// AddEncoded is Add for an object whose encoding is known. It keeps no reference to the bytes.
func (g *Gathering[T]) AddEncoded(o T, e Encoding) {
	g.Add(o)
	known := gatheredEncoding{packed: e.packed, bytes: e.packed.HeapSize(), from: len(g.encodings)}
	if template := e.packed.Dictionary(); template != nil && template != g.template { // neighbors share one
		g.template = template
		known.bytes += template.Size()
	}
	g.encodings = append(g.encodings, e.data...)
	known.to = len(g.encodings)
	g.known = append(g.known, known)
	g.items[len(g.items)-1].known = int32(len(g.known))
	g.patches += known.bytes
}

// EncodedBytes returns the memory that knowing the encodings of open objects takes.
func (g *Gathering[T]) EncodedBytes() int { return len(g.encodings) + g.patches }

// AddHeld appends the present state of an object. If it is open, the Gathering does not count it,
// since the store does; but it keeps the object, in case the store folds it meanwhile.
func (g *Gathering[T]) AddHeld(h Held[T]) {
	g.items = append(g.items, gatheredItem[T]{Held: h, stored: h.folded == nil})
}

// AddPacked appends an object packed elsewhere, for example one read from a file.
func (g *Gathering[T]) AddPacked(k object.Key, uid types.UID, version string, packed fold.Packed) {
	g.folding.packer.Adopt(packed)
	g.items = append(g.items, gatheredItem[T]{own: true, Held: Held[T]{
		key: k, folding: g.folding, folded: g.folding.newFolded(packed, uid, version),
	}})
}

// Len returns the number of objects. It is part of object.Collection.
func (g *Gathering[T]) Len() int { return len(g.items) }

// Open returns how many objects are open and not in the store yet.
func (g *Gathering[T]) Open() int { return g.open }

// Key returns the key of the i-th object.
func (g *Gathering[T]) Key(i int) object.Key { return g.items[i].key }

// Version returns the resource version of the i-th object.
func (g *Gathering[T]) Version(i int) string { return g.items[i].ResourceVersion() }

// All iterates over the objects, in their order. It is part of object.Collection.
func (g *Gathering[T]) All() iter.Seq2[object.Key, T] {
	return func(yield func(object.Key, T) bool) {
		for i := range g.items {
			if !yield(g.items[i].key, g.items[i].Object()) {
				return
			}
		}
	}
}

// Set replaces the i-th object.
func (g *Gathering[T]) Set(i int, o T) {
	g.drop(&g.items[i])
	g.items[i] = gatheredItem[T]{Held: Held[T]{key: object.KeyOf(o), object: o}}
	g.open++
	g.from = min(g.from, i)
}

// Remove removes the i-th object, and moves the last one to its place.
func (g *Gathering[T]) Remove(i int) {
	last := len(g.items) - 1
	g.drop(&g.items[i])
	g.items[i] = g.items[last]
	g.items[last] = gatheredItem[T]{}
	g.items = g.items[:last]
	g.from, g.arrived = min(g.from, i), min(g.arrived, last)
}

// Truncate removes the objects from n on.
func (g *Gathering[T]) Truncate(n int) {
	for i := n; i < len(g.items); i++ {
		g.drop(&g.items[i])
	}
	clear(g.items[n:])
	g.items, g.from, g.arrived = g.items[:n], min(g.from, n), min(g.arrived, n)
	known := 0
	for i := range g.items[g.from:] {
		known = max(known, int(g.items[g.from+i].known))
	}
	g.forget(known)
}

// drop uncounts the item.
func (g *Gathering[T]) drop(item *gatheredItem[T]) {
	switch {
	case item.stored:
	case item.folded == nil:
		g.open--
	case item.own:
		g.folding.release(item.folded.packed)
	}
}

// taken records that the store counts a folded item from now on.
func (item *gatheredItem[T]) taken() {
	if item.folded != nil && !item.own { // the store had it, and has lost it since
		item.folding.packer.Adopt(item.folded.packed)
	}
	item.own = false
}

// packBatch is how many neighbors are packed together.
const packBatch = 500

// Fold folds the open objects. It calls the index functions.
func (g *Gathering[T]) Fold() {
	for g.folding != nil && g.from < len(g.items) {
		end := min(g.from+packBatch, len(g.items))
		g.foldBatch(g.items[g.from:end], true)
		g.from = end
	}
	g.forgetFolded()
}

// forgetFolded forgets the encodings once no open object is left.
func (g *Gathering[T]) forgetFolded() {
	if g.from == len(g.items) {
		g.forget(0)
	}
}

// forget forgets all but the first n of known, which are no longer needed.
func (g *Gathering[T]) forget(n int) {
	gone := g.known[n:]
	if len(gone) == 0 {
		return
	}
	for _, known := range gone {
		g.patches -= known.bytes
	}
	g.encodings, g.template = g.encodings[:gone[0].from], nil
	clear(gone)
	g.known = g.known[:n]
}

// foldBatch folds the open items and, if indexed is set, computes their index values.
func (g *Gathering[T]) foldBatch(items []gatheredItem[T], indexed bool) {
	var objects []T
	var known []Encoding
	var at []int
	for i := range items {
		if item := &items[i]; item.folded == nil && !item.stored {
			objects, at, known = append(objects, item.object), append(at, i), append(known, g.encoding(item))
			item.known = 0
		}
	}
	var last object.Key
	for i, e := range g.folding.pack(objects, known, nil) {
		if e == nil {
			continue
		}
		item := &items[at[i]]
		if indexed {
			item.values = g.valuesOf(item.object)
		}
		last = g.names.key(last, item.key)
		item.Held = Held[T]{key: last, folded: e, folding: g.folding}
		item.own = true
		g.open--
	}
}

// gatheredEncoding is an Encoding whose bytes are part of the gathering's encodings.
type gatheredEncoding struct {
	packed   fold.Packed
	bytes    int // memory of packed, plus that of the template for the first that needs it
	from, to int
}

// encoding returns what an item was decoded from.
func (g *Gathering[T]) encoding(item *gatheredItem[T]) (e Encoding) {
	if item.known == 0 {
		return e
	}
	known := g.known[item.known-1]
	if e.packed = known.packed; known.from < known.to {
		e.data = g.encodings[known.from:known.to:known.to]
	}
	return e
}

// valuesOf returns copies of the object's index values. An index function that panics leaves nil.
func (g *Gathering[T]) valuesOf(o T) [][]string {
	all := make([][]string, len(g.indexes))
	for i, x := range g.indexes {
		values, reason := x.values(o)
		if reason != nil {
			continue
		}
		all[i] = make([]string, len(values))
		for j, v := range values {
			all[i][j] = g.copy(v)
		}
	}
	return all
}

func (g *Gathering[T]) copy(value string) string {
	if known, ok := g.values[value]; ok {
		return known
	}
	if g.values == nil {
		g.values = make(map[string]string)
	}
	value = strings.Clone(value)
	g.values[value] = value
	return value
}

// list returns the objects of a namespace, "" for all, as a listing. It uncounts duplicates that it drops.
func (g *Gathering[T]) list(namespace string) *gatheredList[T] {
	key := func(item *gatheredItem[T]) object.Key { return item.key }
	version := func(item *gatheredItem[T]) string { return item.ResourceVersion() }
	g.items = sorted(g.items, key, version, g.drop)
	items := only(namespace, g.items, func(item *gatheredItem[T]) string { return item.key.Namespace })
	return &gatheredList[T]{items: items, indexes: g.indexes}
}

// Close uncounts what Replace did not put into the store.
func (g *Gathering[T]) Close() { g.Truncate(0) }

// gatheredList is a Gathering as a listing.
type gatheredList[T object.Object] struct {
	items   []gatheredItem[T]
	indexes []*Index[T]
}

func (l *gatheredList[T]) len() int             { return len(l.items) }
func (l *gatheredList[T]) key(i int) object.Key { return l.items[i].key }
func (l *gatheredList[T]) held(i int) Held[T]   { return l.items[i].Held }

func (l *gatheredList[T]) taken(i int) { l.items[i].taken() }

func (l *gatheredList[T]) known(x *Index[T], i tree.Slot) ([]string, bool) {
	at := slices.Index(l.indexes, x)
	if at < 0 || l.items[i].values == nil || l.items[i].values[at] == nil {
		return nil, false
	}
	return l.items[i].values[at], true
}
