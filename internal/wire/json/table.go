package json

// table finds decoded values by the text they were decoded from. It has two generations: what is used moves to the
// young one, and what was not used for a whole generation is dropped with the old one. So it is bounded, it keeps
// what is in use, and it shrinks when the objects change.
type table struct {
	hash       hasher
	young, old generation
	limit      int // bytes of one generation
	lookups    int // since the young generation began
}

type generation struct {
	values map[sum]entry
	bytes  int
}

type entry struct {
	value any    // nil if all that is known is that it was seen
	size  uint32 // bytes that value holds on its own, entries of its parts excluded
	doc   uint32 // the document that it was first seen in
}

const (
	// defaultTableBytes is enough for the distinct parts of some hundred thousand objects.
	defaultTableBytes = 64 << 20
	// entryBytes is what a Go map needs for one entry, with its free slots.
	entryBytes = 64
	// A generation ends when it has seen lookupsPerEntry lookups for each entry, so what is in steady use is
	// almost surely seen again before; minLookups keeps generations from being trivially short.
	lookupsPerEntry = 8
	minLookups      = 1 << 16
)

func newTable(maxBytes int) *table {
	if maxBytes <= 0 {
		maxBytes = defaultTableBytes
	}
	return &table{hash: newHasher(), limit: maxBytes / 2, young: newGeneration()}
}

func newGeneration() generation { return generation{values: map[sum]entry{}} }

// get returns the entry that was put under key.
func (t *table) get(key sum) (entry, bool) {
	if t.lookups++; t.lookups > minLookups+lookupsPerEntry*t.entries() {
		t.turn()
	}
	if e, ok := t.young.values[key]; ok {
		return e, true
	}
	e, ok := t.old.values[key]
	if ok {
		t.put(key, e)
	}
	return e, ok
}

// put stores e under key in the young generation.
func (t *table) put(key sum, e entry) {
	size := entryBytes + int(e.size)
	if size > t.limit {
		return
	}
	if before, ok := t.young.values[key]; ok {
		t.young.bytes -= entryBytes + int(before.size)
	}
	if t.young.bytes+size > t.limit {
		t.turn()
	}
	t.young.values[key] = e
	t.young.bytes += size
}

// turn begins a new generation.
func (t *table) turn() { t.old, t.young, t.lookups = t.young, newGeneration(), 0 }

func (t *table) entries() int { return len(t.young.values) + len(t.old.values) }

func (t *table) bytes() int { return t.young.bytes + t.old.bytes }
