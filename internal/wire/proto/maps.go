package proto

import (
	"reflect"
	"unsafe"
)

// maxHint bounds the room that a map is made with; a longer one grows as it is filled.
const maxHint = 1024

// mapping decodes the run of map entries that begins with the tag at b[start:]. p points to the map.
func (d *decoder) mapping(f *field, p, old unsafe.Pointer, b []byte, start, i, wire int) (int, error) {
	if wire != bytesWire {
		return 0, wrongWire(f, wire)
	}
	if old != nil {
		if end := d.matchMap(f, old, b, start, i, maxMatch); end != noMatch {
			*(*unsafe.Pointer)(p) = *(*unsafe.Pointer)(old)
			return end, nil
		}
	}
	n, end, err := run(b, start, i)
	if err != nil {
		return 0, err
	}
	encoded := b[start:end]
	if !d.shares() || f.kind == foreignKind || !f.site.wants(encoded) {
		return end, d.mapEntries(f, p, b, start, i, n)
	}
	found, hash, verdict := d.table.find(f.site, f.wholeShape, f.mapLayout, encoded)
	if found.value != nil {
		// Safe because a map is one pointer, and the entry's shape names the type of this map.
		*(*unsafe.Pointer)(p) = found.value
		return end, nil
	}
	if verdict == keep {
		return end, d.mapEntries(f, p, b, start, i, n)
	}
	outer := d.open()
	if err := d.mapEntries(f, p, b, start, i, n); err != nil {
		return 0, err
	}
	d.close(outer, hash, f.wholeShape, f.mapLayout, encoded, *(*unsafe.Pointer)(p), n)
	return end, nil
}

// mapEntries decodes n entries into the map. Keys and values are copied into the map, so nothing of them is put off.
func (d *decoder) mapEntries(f *field, p unsafe.Pointer, b []byte, start, i, n int) error {
	m := reflect.NewAt(f.whole, p).Elem()
	if d.spend(48 + n*(int(f.size)+16+1)); d.allowance < 0 {
		return errAllowance
	}
	if m.IsNil() {
		m.Set(reflect.MakeMapWithSize(f.whole, min(n, maxHint)))
	}
	d.storing++
	width := i - start
	for range n {
		from, to, err := prefixed(b, i)
		if err != nil {
			return err
		}
		if err := d.mapEntry(f, m, b, from, to); err != nil {
			return err
		}
		i = to + width
	}
	if m.Len() == 0 {
		m.SetZero() // all entries are trimmed
	}
	d.storing--
	return nil
}

// mapEntry decodes the entry b[i:end] into m. As in the generated code the wire types of key and value do not matter.
// Where a key or value reaches beyond the entry, the message that holds the map decides; that is left to plain mode.
func (d *decoder) mapEntry(f *field, m reflect.Value, b []byte, i, end int) error {
	var key, value []byte
	decoded := reflect.Value{}
	for i < end {
		v, next, err := uvarint(b, i)
		if err != nil {
			return err
		}
		var from, to int
		switch int32(v >> 3) {
		case 1:
			if from, to, err = prefixed(b, next); err != nil {
				return err
			}
			key, i = b[from:to], to
		case 2:
			if from, to, err = prefixed(b, next); err != nil {
				return err
			}
			if value, i = b[from:to], to; f.kind != stringKind && f.kind != bytesKind {
				// Each value is decoded even if another one follows: it may be broken.
				decoded = reflect.New(f.typ)
				if err := d.value(f, f.element, decoded.UnsafePointer(), nil, value); err != nil {
					return err
				}
			}
		default:
			if i, err = skip(b[:end], i); err != nil {
				return err
			}
		}
	}
	if i > end && !d.plain {
		return errIrregular
	}
	if f.entries[string(key)] {
		return nil
	}
	d.insert(f, m, key, value, decoded)
	return nil
}

// insert adds an entry to m. decoded holds the value where it is a message.
func (d *decoder) insert(f *field, m reflect.Value, key, value []byte, decoded reflect.Value) {
	var k string
	d.string(f.element, &k, nil, key)
	if f.whole == stringMapType {
		var v string
		d.string(f.element, &v, nil, value)
		// Safe because m is addressable and of exactly this type.
		(*(*map[string]string)(m.Addr().UnsafePointer()))[k] = v
		return
	}
	if !decoded.IsValid() {
		decoded = reflect.New(f.typ)
		d.missing(f, decoded.UnsafePointer(), value)
	}
	m.SetMapIndex(reflect.ValueOf(k).Convert(f.whole.Key()), decoded.Elem())
}

// missing sets a map's value at p that is not a message, or is one that the entry does not have.
func (d *decoder) missing(f *field, p unsafe.Pointer, b []byte) {
	switch {
	case f.kind == stringKind:
		d.string(f.element, (*string)(p), nil, b)
	case f.kind == bytesKind:
		d.bytes((*[]byte)(p), nil, b)
	case f.items:
		makeEmpty((*header)(p))
	}
}
