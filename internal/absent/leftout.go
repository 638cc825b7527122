package absent

import (
	"hash/maphash"
	"maps"
	"sync"

	"github.com/tidings/tidings/object"
)

// LeftOut knows which objects of a part the transform leaves out. There may be more of them than
// others, so it keeps only hashes of their keys.
type LeftOut struct {
	mu   sync.Mutex
	keys map[uint64]struct{}
	// listed are those of the list being read. known is set once a list was read whole: a file does not tell.
	listed map[uint64]struct{}
	known  bool
}

var leftOutSeed = maphash.MakeSeed()

// Begin forgets those of an unfinished list.
func (l *LeftOut) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed = nil
}

// NoteListed records whether an object of the list being read is left out.
func (l *LeftOut) NoteListed(key object.Key, out bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	noteIn(&l.listed, key, out)
}

// Relisted makes those of the list that was read the only ones.
func (l *LeftOut) Relisted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys, l.listed, l.known = l.listed, nil, true
}

// Note records whether an object is left out from now on.
func (l *LeftOut) Note(key object.Key, out bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	noteIn(&l.keys, key, out)
}

func noteIn(keys *map[uint64]struct{}, key object.Key, out bool) {
	switch {
	case !out && len(*keys) == 0:
		return
	case *keys == nil:
		*keys = map[uint64]struct{}{}
	}
	if hash := maphash.Comparable(leftOutSeed, key); out {
		(*keys)[hash] = struct{}{}
	} else {
		delete(*keys, hash)
	}
}

// Len returns how many there are.
func (l *LeftOut) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}

// Contains returns a function that reports whether an object is left out, or may be.
func (l *LeftOut) Contains() func(object.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known {
		return func(object.Key) bool { return true }
	}
	keys := maps.Clone(l.keys)
	return func(key object.Key) bool {
		_, out := keys[maphash.Comparable(leftOutSeed, key)]
		return out
	}
}
