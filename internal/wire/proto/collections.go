package proto

import (
	"bytes"
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
)

// header is the memory of a slice.
type header struct {
	data     unsafe.Pointer
	len, cap int
}

// list decodes the run of elements whose first tag is b[start:i]. p points to the slice.
func (d *decoder) list(f *field, p, old unsafe.Pointer, b []byte, start, i, wire int) (int, error) {
	if wire != bytesWire {
		return 0, wrongWire(f, wire)
	}
	slice, before := (*header)(p), (*header)(old)
	if before != nil {
		if end := d.matchList(f, before, b, start, i, maxMatch); end != noMatch {
			*slice = *before
			return end, nil
		}
	}
	n, end, err := run(b, start, i)
	if err != nil {
		return 0, err
	}
	encoded := b[start:end]
	if !d.shares() || f.kind == foreignKind || !f.site.shouldLookUp(encoded) {
		return end, d.elements(f, slice, before, b, start, i, n)
	}
	found, hash, action := d.table.find(f.site, f.wholeShape, f.layout, encoded)
	if found.value != nil {
		*slice = header{found.value, found.n, found.n}
		return end, nil
	}
	if action == decodeOnly {
		return end, d.elements(f, slice, before, b, start, i, n)
	}
	outer := d.beginShared()
	if err := d.elements(f, slice, nil, b, start, i, n); err != nil {
		return 0, err
	}
	d.endShared(outer, hash, f.wholeShape, f.layout, encoded, slice.data, n)
	return end, nil
}

// makeEmpty turns a nil slice into an empty one.
func makeEmpty(slice *header) {
	if slice.data == nil {
		slice.data = unsafe.Pointer(new(struct{}))
	}
}

// elements decodes n elements and appends them to the slice. An element reuses parts of the
// previous element at its index: servers change elements far more often than they move them.
func (d *decoder) elements(f *field, slice, old *header, b []byte, start, i, n int) error {
	first, width := slice.len, i-start
	if err := d.extend(f, slice, n); err != nil {
		return err
	}
	for k := range n {
		from, to, err := prefixed(b, i)
		if err != nil {
			return err
		}
		// Safe because extend made room for the elements from first to first+n.
		at := unsafe.Add(slice.data, uintptr(first+k)*f.size)
		var before unsafe.Pointer
		if old != nil && k < old.len {
			before = unsafe.Add(old.data, uintptr(k)*f.size)
		}
		if err := d.value(f, f.element, at, before, b[from:to]); err != nil {
			return err
		}
		i = to + width
	}
	return nil
}

// extend appends n zero elements to the slice. A new slice gets the exact capacity. One that has elements, which
// happens only in plain mode, grows by at least its size, so that many short runs do not take quadratic time.
func (d *decoder) extend(f *field, slice *header, n int) error {
	need := slice.len + n
	if need <= slice.cap {
		slice.len = need
		return nil
	}
	old := *slice
	// Before it is allocated: two bytes can encode an empty element, which may take hundreds of bytes of memory.
	if max(need, 2*old.len) > d.allowance/max(1, int(f.size)) {
		return errAllowance
	}
	*slice = d.makeSlice(f, max(need, 2*old.len))
	slice.len = need
	if old.len > 0 {
		sliceType := reflect.SliceOf(f.typ)
		reflect.Copy(reflect.NewAt(sliceType, unsafe.Pointer(slice)).Elem(), reflect.NewAt(sliceType, unsafe.Pointer(&old)).Elem())
	}
	return nil
}

// makeSlice allocates n zero elements. For a few it allocates an array, which saves the allocation of a slice header.
func (d *decoder) makeSlice(f *field, n int) header {
	d.spend(n * int(f.size))
	if n == 1 {
		return header{reflect.New(f.typ).UnsafePointer(), 1, 1}
	}
	if array := f.arrayOf(n); array != nil {
		return header{reflect.New(reflect.TypeOf(array).Elem()).UnsafePointer(), n, n}
	}
	return header{reflect.MakeSlice(reflect.SliceOf(f.typ), n, n).UnsafePointer(), n, n}
}

// numbers decodes a run of repeated varints, or one packed field of them.
func (d *decoder) numbers(f *field, p, old unsafe.Pointer, b []byte, start, i, wire int) (int, error) {
	slice, before := (*header)(p), (*header)(old)
	if before != nil {
		if end := matchNumbers(f, before, b, start, i, wire); end != noMatch {
			*slice = *before
			return end, nil
		}
	}
	switch wire {
	case bytesWire:
		from, to, err := prefixed(b, i)
		if err != nil {
			return 0, err
		}
		return d.packed(f, slice, b, from, to)
	case varintWire:
		return d.varints(f, slice, b, start, i)
	}
	return 0, wrongWire(f, wire)
}

// packed appends the varints of b[from:to]. As in the generated code, the last one may extend beyond to; reading then
// continues after it.
func (d *decoder) packed(f *field, slice *header, b []byte, from, to int) (int, error) {
	n := 0
	for _, c := range b[from:to] {
		if c < 0x80 {
			n++
		}
	}
	if to > from && b[to-1] >= 0x80 {
		n++
	}
	k := slice.len
	if err := d.extend(f, slice, n); err != nil {
		return 0, err
	}
	for from < to {
		v, next, err := uvarint(b, from)
		if err != nil {
			return 0, err
		}
		setVarint(f.kind, unsafe.Add(slice.data, uintptr(k)*f.size), v)
		k, from = k+1, next
	}
	if from > to && !d.plain {
		return 0, errIrregular
	}
	return from, nil
}

// varints appends the run of unpacked varints whose first tag is b[start:i].
func (d *decoder) varints(f *field, slice *header, b []byte, start, i int) (int, error) {
	tag := b[start:i]
	n, end := 0, i
	for at := i; ; {
		_, next, err := uvarint(b, at)
		if err != nil {
			return 0, err
		}
		n, end = n+1, next
		if !bytes.HasPrefix(b[end:], tag) {
			break
		}
		at = end + len(tag)
	}
	first := slice.len
	if err := d.extend(f, slice, n); err != nil {
		return 0, err
	}
	for k := range n {
		v, next, _ := uvarint(b, i)
		setVarint(f.kind, unsafe.Add(slice.data, uintptr(first+k)*f.size), v)
		i = next + len(tag)
	}
	return end, nil
}

// maxHint bounds the initial size of a map; a larger one grows as it is filled.
const maxHint = 1024

// mapping decodes the run of map entries whose first tag is b[start:i]. p points to the map.
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
	if !d.shares() || f.kind == foreignKind || !f.site.shouldLookUp(encoded) {
		return end, d.mapEntries(f, p, b, start, i, n)
	}
	found, hash, action := d.table.find(f.site, f.wholeShape, f.mapped.layout, encoded)
	if found.value != nil {
		// Safe because a map is one pointer, and the entry's shape names the type of this map.
		*(*unsafe.Pointer)(p) = found.value
		return end, nil
	}
	if action == decodeOnly {
		return end, d.mapEntries(f, p, b, start, i, n)
	}
	outer := d.beginShared()
	if err := d.mapEntries(f, p, b, start, i, n); err != nil {
		return 0, err
	}
	d.endShared(outer, hash, f.wholeShape, f.mapped.layout, encoded, *(*unsafe.Pointer)(p), n)
	return end, nil
}

// mapEntries decodes n entries into the map. Keys and values are copied into the map, so nothing in them is deferred.
func (d *decoder) mapEntries(f *field, p unsafe.Pointer, b []byte, start, i, n int) error {
	// The map itself, and for each entry the value, the header of its key, and a control byte.
	if d.spend(48 + n*(int(f.size)+16+1)); d.allowance < 0 {
		return errAllowance
	}
	m := reflect.NewAt(f.whole, p).Elem()
	if *(*unsafe.Pointer)(p) == nil {
		f.makeMap(p, min(n, maxHint))
	}
	d.noDefer++
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
	d.noDefer--
	return nil
}

// makeMap creates a map at p with room for n entries.
func (f *field) makeMap(p unsafe.Pointer, n int) {
	switch {
	case f.whole == stringMapType:
		*(*map[string]string)(p) = make(map[string]string, n)
	case f.kind == quantityKind:
		// Safe because the keys of all maps are of string kinds, so that all maps of quantities have the same layout.
		*(*map[string]resource.Quantity)(p) = make(map[string]resource.Quantity, n)
	default:
		reflect.NewAt(f.whole, p).Elem().Set(reflect.MakeMapWithSize(f.whole, n))
	}
}

// mapEntry decodes the entry b[i:end] into m. As in the generated code, the wire types of key and
// value do not matter. If a key or value extends beyond the entry, the result depends on the
// message around the map; that is left to plain mode.
func (d *decoder) mapEntry(f *field, m reflect.Value, b []byte, i, end int) error {
	var key, value []byte
	var amount resource.Quantity
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
			// Each value is decoded even if another one follows: it may be malformed.
			switch value, i = b[from:to], to; f.kind {
			case stringKind, bytesKind:
			case quantityKind:
				amount = resource.Quantity{}
				if err := d.quantity(unsafe.Pointer(&amount), value); err != nil {
					return err
				}
			default:
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
	if f.mapped.trims[string(key)] {
		return nil
	}
	if f.kind == quantityKind {
		var k string
		d.string(f.mapped.key, &k, nil, key)
		// Safe because m is addressable and the keys of all maps are of string kinds.
		(*(*map[string]resource.Quantity)(m.Addr().UnsafePointer()))[k] = amount
		return nil
	}
	d.insert(f, m, key, value, decoded)
	return nil
}

// insert adds an entry that is not a quantity to m. decoded holds the value if it is a message.
func (d *decoder) insert(f *field, m reflect.Value, key, value []byte, decoded reflect.Value) {
	var k string
	d.string(f.mapped.key, &k, nil, key)
	if f.whole == stringMapType {
		var v string
		d.string(f.element, &v, nil, value)
		// Safe because m is addressable and of exactly this type.
		(*(*map[string]string)(m.Addr().UnsafePointer()))[k] = v
		return
	}
	if !decoded.IsValid() {
		decoded = reflect.New(f.typ)
		d.setMapValue(f, decoded.UnsafePointer(), value)
	}
	m.SetMapIndex(reflect.ValueOf(k).Convert(f.whole.Key()), decoded.Elem())
}

// setMapValue sets a map value at p that is not a message, or a message that the entry lacks.
func (d *decoder) setMapValue(f *field, p unsafe.Pointer, b []byte) {
	switch {
	case f.kind == stringKind:
		d.string(f.element, (*string)(p), nil, b)
	case f.kind == bytesKind:
		d.bytes((*[]byte)(p), nil, b)
	case f.items:
		makeEmpty((*header)(p))
	}
}
