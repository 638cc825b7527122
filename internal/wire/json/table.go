package json

import "github.com/tidings/tidings/internal/wire/share"

// table finds decoded values by the text they were decoded from.
type table struct {
	*share.Table[entry]
	hash hasher
}

type entry struct {
	value any    // nil if all that is known is that it was seen
	doc   uint32 // the document that it was first seen in
}

func newTable(maxBytes int) *table { return &table{share.NewTable[entry](maxBytes), newHasher()} }

// get returns the entry that was put under key, or nil.
func (t *table) get(key sum) *share.Entry[entry] {
	e := t.Find(key.a, 0)
	if e == nil || e.Check != key.b {
		return nil
	}
	t.Use(e)
	return e
}

// put stores a value under key. size is what it takes on its own, without the entries of its parts; memory is its checksum.
func (t *table) put(key sum, value entry, size int, memory uint64) {
	if e := t.get(key); e != nil {
		t.Drop(e)
	}
	t.Add(share.Entry[entry]{Hash: key.a, Check: key.b, Value: value, Cost: uint32(size), Memory: memory})
}
