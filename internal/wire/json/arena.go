package json

// place is the destination of a value: m[key], or, if m is nil, an index into arena.elements.
type place struct {
	m       map[string]any
	key     string
	element int
}

// arena collects the strings and slices that belong to one object only.
type arena struct {
	text     []byte // all strings, concatenated
	strings  []span // in text
	elements []any  // of all slices, concatenated
	lists    []span // in elements
	pending  []pending
	maps     [maxCompared]recentMap // the most recent ones, a ring
	nextMap  int                    // index of the next one
}

// recentMap is one of the object's maps, with the text it was built from and what was trimmed from it.
type recentMap struct {
	value any
	text  []byte
	trim  *trimNode
}

type span struct{ from, to int }

// pending is a string or slice that settle has yet to store.
type pending struct {
	place
	index int // in strings or lists
	list  bool
}

// maxCompared is how many of the most recent strings and maps a new one is compared with. Times,
// for example, repeat within an object.
const maxCompared = 32

// reset drops everything, and frees the memory of an unusually large object.
func (a *arena) reset() {
	if cap(a.text) > maxScratch || cap(a.pending) > maxKeptNodes || cap(a.elements) > maxKeptNodes {
		*a = arena{}
	}
	a.text, a.strings, a.lists = a.text[:0], a.strings[:0], a.lists[:0]
	clear(a.elements)
	a.elements = a.elements[:0]
	clear(a.pending)
	a.pending = a.pending[:0]
	clear(a.maps[:])
	a.nextMap = 0
}

// addString adds the string raw, which includes its quotes.
func (a *arena) addString(raw []byte, to place) {
	from := len(a.text)
	a.text = appendUnquoted(a.text, raw)
	index := a.indexOf(a.text[from:])
	if index < len(a.strings) {
		a.text = a.text[:from]
	} else {
		a.strings = append(a.strings, span{from, len(a.text)})
	}
	a.pending = append(a.pending, pending{place: to, index: index})
}

// indexOf returns the index of text among the most recent strings, or len(a.strings).
func (a *arena) indexOf(text []byte) int {
	for i := len(a.strings) - 1; i >= max(0, len(a.strings)-maxCompared); i-- {
		if s := a.strings[i]; s.to-s.from == len(text) && string(a.text[s.from:s.to]) == string(text) {
			return i
		}
	}
	return len(a.strings)
}

// addMap keeps m for comparison with later maps.
func (a *arena) addMap(m recentMap) {
	a.maps[a.nextMap] = m
	a.nextMap = (a.nextMap + 1) % maxCompared
}

// mapLike returns the value of a recent map built from the same text with the same trims, or nil.
func (a *arena) mapLike(m recentMap) any {
	for i := range a.maps {
		if seen := &a.maps[i]; seen.trim == m.trim && len(seen.text) == len(m.text) && string(seen.text) == string(m.text) {
			return seen.value
		}
	}
	return nil
}

// addList reserves a slice of size nil elements, and returns the index of the first.
func (a *arena) addList(size int, to place) int {
	from := len(a.elements)
	a.elements = append(a.elements, make([]any, size)...)
	a.pending = append(a.pending, pending{place: to, index: len(a.lists), list: true})
	a.lists = append(a.lists, span{from, from + size})
	return from
}

// settle allocates the final memory of everything collected, in at most four pieces, and stores the strings and slices.
func (a *arena) settle() {
	text, elements := string(a.text), make([]any, len(a.elements))
	copy(elements, a.elements)
	strings, lists := make([]string, len(a.strings)), make([][]any, len(a.lists))
	for i, s := range a.strings {
		strings[i] = text[s.from:s.to]
	}
	for i, s := range a.lists {
		lists[i] = elements[s.from:s.to:s.to]
	}
	for _, p := range a.pending {
		var v any
		if p.list {
			v = boxedList(&lists[p.index])
		} else {
			v = boxedString(&strings[p.index])
		}
		if p.m != nil {
			p.m[p.key] = v
		} else {
			elements[p.element] = v
		}
	}
	a.reset()
}
