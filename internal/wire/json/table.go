package json

import "github.com/tidings/tidings/internal/wire/share"

// table finds decoded values by the text they were decoded from. A nil value means that the text
// was seen but not stored.
type table struct {
	*share.Table[any]
	hash hasher
}

// sweepEvery is the number of objects after which the table drops entries that were not found
// again. A JSON object takes many times as many entries as a protobuf one.
const sweepEvery = 1 << 12

type entry = share.Entry[any]

func newTable(maxBytes int) *table {
	return &table{share.NewTable[any](maxBytes, sweepEvery), newHasher()}
}

// get returns the entry stored under key, or nil.
func (t *table) get(key sum) *entry {
	e := t.Find(key.a)
	if e == nil || e.Check != key.b {
		return nil
	}
	t.Use(e)
	return e
}

// put stores an entry under key.
func (t *table) put(key sum, e entry) {
	if before := t.get(key); before != nil {
		t.Drop(before)
	}
	e.Hash, e.Check = key.a, key.b
	t.Add(e)
}
