package json

// place is the destination of a value: m[key], or, if m is nil, an index into own.elements.
type place struct {
	m       map[string]any
	key     string
	element int
}

// own collects the strings and slices that belong to one object only.
type own struct {
	text     []byte // all strings, concatenated
	strings  []span // in text
	elements []any  // of all slices, concatenated
	lists    []span // in elements
	pending  []pending
	maps     [maxCompared]ownMap // the most recent ones, a ring
	nextMap  int                 // index of the next one
}

// ownMap is one of the object's maps, with the text it was built from and what was trimmed from it.
type ownMap struct {
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

// maxCompared is how many of the most recent strings and maps a new one is compared with. Times, for example, repeat within an
// object.
const maxCompared = 32

// reset drops everything, and frees the memory of an unusually large object.
func (o *own) reset() {
	if cap(o.text) > maxScratch || cap(o.pending) > maxKeptNodes || cap(o.elements) > maxKeptNodes {
		*o = own{}
	}
	o.text, o.strings, o.lists = o.text[:0], o.strings[:0], o.lists[:0]
	clear(o.elements)
	o.elements = o.elements[:0]
	clear(o.pending)
	o.pending = o.pending[:0]
	clear(o.maps[:])
	o.nextMap = 0
}

// addString adds the string raw, which includes its quotes.
func (o *own) addString(raw []byte, to place) {
	from := len(o.text)
	o.text = appendUnquoted(o.text, raw)
	index := o.indexOf(o.text[from:])
	if index < len(o.strings) {
		o.text = o.text[:from]
	} else {
		o.strings = append(o.strings, span{from, len(o.text)})
	}
	o.pending = append(o.pending, pending{place: to, index: index})
}

// indexOf returns the index of text among the most recent strings, or len(o.strings).
func (o *own) indexOf(text []byte) int {
	for i := len(o.strings) - 1; i >= max(0, len(o.strings)-maxCompared); i-- {
		if s := o.strings[i]; s.to-s.from == len(text) && string(o.text[s.from:s.to]) == string(text) {
			return i
		}
	}
	return len(o.strings)
}

// addMap keeps m for comparison with later maps.
func (o *own) addMap(m ownMap) {
	o.maps[o.nextMap] = m
	o.nextMap = (o.nextMap + 1) % maxCompared
}

// mapLike returns the value of a recent map built from the same text with the same trims, or nil.
func (o *own) mapLike(m ownMap) any {
	for i := range o.maps {
		if seen := &o.maps[i]; seen.trim == m.trim && len(seen.text) == len(m.text) && string(seen.text) == string(m.text) {
			return seen.value
		}
	}
	return nil
}

// addList reserves a slice of size nil elements, and returns the index of the first.
func (o *own) addList(size int, to place) int {
	from := len(o.elements)
	o.elements = append(o.elements, make([]any, size)...)
	o.pending = append(o.pending, pending{place: to, index: len(o.lists), list: true})
	o.lists = append(o.lists, span{from, from + size})
	return from
}

// settle allocates the final memory of everything collected, in at most four pieces, and stores the strings and slices.
func (o *own) settle() {
	text, elements := string(o.text), make([]any, len(o.elements))
	copy(elements, o.elements)
	strings, lists := make([]string, len(o.strings)), make([][]any, len(o.lists))
	for i, s := range o.strings {
		strings[i] = text[s.from:s.to]
	}
	for i, s := range o.lists {
		lists[i] = elements[s.from:s.to:s.to]
	}
	for _, p := range o.pending {
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
	o.reset()
}
