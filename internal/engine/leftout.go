package engine

import (
	"hash/maphash"
	"maps"
	"sync"

	"github.com/tidings/tidings/object"
)

// leftOut knows which objects of a part the transform leaves out. There may be more of them than
// others, so it keeps only hashes of their keys.
type leftOut struct {
	mu   sync.Mutex
	keys map[uint64]struct{}
	// listed are those of the list being read. known is set once a list was read whole: a file does not tell.
	listed map[uint64]struct{}
	known  bool
}

var leftOutSeed = maphash.MakeSeed()

// begin forgets those of an unfinished list.
func (l *leftOut) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed = nil
}

// noteListed records whether an object of the list being read is left out.
func (l *leftOut) noteListed(key object.Key, out bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	noteIn(&l.listed, key, out)
}

// relisted makes those of the list that was read the only ones.
func (l *leftOut) relisted() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys, l.listed, l.known = l.listed, nil, true
}

// note records whether an object is left out from now on.
func (l *leftOut) note(key object.Key, out bool) {
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

// len returns how many there are.
func (l *leftOut) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}

// contains returns a function that reports whether an object is left out, or may be.
func (l *leftOut) contains() func(object.Key) bool {
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
