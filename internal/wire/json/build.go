package json

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/share"
)

// builder makes values from the nodes of one document after the other.
//
// A value whose field repeats is looked up by its text; if it is new, it is built and put into the table. The strings
// and slices that are this object's alone would cost two small allocations each, so they are gathered while the object
// is built and get their memory at the end, all together; see own.
type builder struct {
	tape   tape
	data   []byte
	fields *fields
	table  *table
	shared bool // maps and slices may be shared

	own     own
	fixed   int    // above 0, strings and slices get memory of their own: what is built goes into the table, or is built twice
	doc     uint32 // counts the documents; it may wrap
	fresh   int    // bytes allocated that no entry of the table accounts for
	allowed int    // bytes that may still be allocated for this document
	budget  int    // bytes of maps and slices that may still be hashed in this document
	twice   bool   // an object had a name twice
	empty   any    // the shared {}
	none    any    // the shared []
	sum     uint64 // while fixed is above 0, the checksum of the map or slice that was made or found last
	lookups uint64
	hits    uint64
	saved   uint64 // bytes of text that hits stand for
	err     error  // the first number that does not fit, or that it takes too much memory
	// corrupted are the names of the fields at which a shared value came up that somebody has written to.
	corrupted []string
	left      int // how many values a checksum may still go through
}

const (
	// maxOwn bounds the strings that are gathered, so that small ones do not keep a big one alive, and the texts of
	// the maps that are compared, so that deep nesting cannot take quadratic time.
	maxOwn = 1024
	// maxHashed bounds how often each byte is hashed as part of one more map or slice around it, so that deep nesting
	// cannot take quadratic time. Real objects stay below it.
	maxHashed = 32
)

func newBuilder(trim *trimNode, maxTableBytes int, shared bool) builder {
	return builder{
		fields: newFields(trim), table: newTable(maxTableBytes), shared: shared,
		empty: map[string]any{}, none: []any{},
	}
}

// build returns the object at the root of the parsed document.
func (b *builder) build(data []byte) (map[string]any, error) {
	b.data, b.err, b.twice, b.budget = data, nil, false, maxHashed*len(data)
	b.doc++
	object := b.root(0)
	if b.twice && b.err == nil {
		// What is set later could overwrite the member that came last: start again without those.
		object = b.root(1)
	}
	b.data = nil
	if b.err != nil {
		b.own.reset()
		return nil, b.err
	}
	b.own.settle()
	return object, nil
}

func (b *builder) root(fixed int) map[string]any {
	b.own.reset()
	b.fixed, b.fresh, b.allowed = fixed, 0, wire.Allowance(len(b.data))
	return b.object(0, b.fields.root)
}

// value returns the value of node i, which goes to place. A string or slice of the object's own is nil for now: it is
// put there by settle.
func (b *builder) value(i int32, f *field, to place) any {
	n := &b.tape.nodes[i]
	switch n.kind {
	case jsontext.KindNull:
		return nil
	case jsontext.KindTrue:
		return true
	case jsontext.KindFalse:
		return false
	case jsontext.KindNumber:
		return b.number(b.data[n.start:n.end], f)
	case jsontext.KindString:
		return b.string(b.data[n.start:n.end], f, to)
	default:
		return b.container(i, f, to)
	}
}

// container returns the map or slice of node i, shared if this or another object had it.
func (b *builder) container(i int32, f *field, to place) any {
	n := &b.tape.nodes[i]
	isMap := n.kind == jsontext.KindBeginObject
	switch {
	case !b.shared:
		return b.fill(i, f, to)
	case n.size == 0 && isMap:
		b.sum = 0
		return b.emptyMap(f)
	case n.size == 0:
		b.sum = 0
		return b.none
	case !isMap || b.fixed > 0 || n.end-n.start > maxOwn:
		return b.sharedContainer(i, f, to)
	}
	// Containers started together say so with equal maps, and mount the same volume.
	m := ownMap{text: b.data[n.start:n.end], trim: f.trim}
	if m.value = b.own.mapLike(m); m.value == nil {
		m.value = b.sharedContainer(i, f, to)
		b.own.addMap(m)
	}
	return m.value
}

// emptyMap returns the shared {}, or a new one if somebody has written to it.
func (b *builder) emptyMap(f *field) any {
	if len(b.empty.(map[string]any)) > 0 {
		b.corrupted = append(b.corrupted, b.fields.nameOf(f))
		b.empty = map[string]any{}
	}
	return b.empty
}

// sharedContainer returns the map or slice of node i, shared if another object had it.
func (b *builder) sharedContainer(i int32, f *field, to place) any {
	n := &b.tape.nodes[i]
	raw := b.data[n.start:n.end]
	if b.budget < len(raw) {
		return b.fill(i, f, to)
	}
	b.budget -= len(raw)
	r := &f.rate
	if n.kind == jsontext.KindBeginObject {
		r = b.rateOfMaps(i, f)
	}
	if !b.wants(r, raw) {
		return b.fill(i, f, to)
	}
	key := b.table.hash.sum(raw, f.trim.saltOf())
	v, seen := b.find(key, raw, f, r, &containers)
	switch {
	case v != nil:
		return v
	case !seen && r.Mode == share.Sampling:
		b.remember(key, nil, b.fresh)
		return b.fill(i, f, to)
	}
	before := b.fresh
	b.fixed++
	v = b.fill(i, f, to)
	b.fixed--
	b.remember(key, v, before)
	return v
}

// rateOfMaps returns the rate that the map of node i counts for. Maps of several kinds mostly differ in the second
// name, unless that is data: the first is often that of a name or type. The map is not empty.
func (b *builder) rateOfMaps(i int32, f *field) *share.Rate {
	first, nodes := b.fields.member(f, nil, b.name(i+1)), b.tape.nodes
	if nodes[i].size > 1 {
		if second := b.fields.member(f, first, b.name(nodes[i+2].next)); second.raw != "" {
			return &second.maps
		}
	}
	return &first.maps
}

// fill builds the map or slice of node i.
func (b *builder) fill(i int32, f *field, to place) any {
	switch {
	case b.tape.nodes[i].kind == jsontext.KindBeginObject:
		return b.object(i, f)
	case b.fixed == 0:
		b.ownArray(i, f, to)
		return nil
	default:
		return b.array(i, f)
	}
}

// object builds the map of node i. Of members with the same name the last one wins.
func (b *builder) object(i int32, f *field) map[string]any {
	size := b.kept(i, f)
	if b.spend(mapBytes(size)); b.err != nil {
		return nil
	}
	m := make(map[string]any, size)
	sum := uint64(size)
	var member *field
	for at, end := i+1, b.tape.nodes[i].next; at < end; at = b.tape.nodes[at+1].next {
		raw := b.name(at)
		member = b.fields.member(f, member, raw)
		if member.trim.trims() {
			continue
		}
		name := member.name
		if member.raw == "" {
			name = b.rareName(raw, member)
		}
		v := b.value(at+1, member, place{m: m, key: name})
		m[name] = v
		if b.fixed > 0 {
			sum += b.memberSum(name, b.partSum(v))
		}
	}
	if b.sum = sum; len(m) != size {
		b.twice, b.sum = true, b.checksumOf(m, len(b.data))
	}
	return m
}

// spend notes memory that is about to be allocated, and fails if that is too much.
func (b *builder) spend(bytes int) {
	b.fresh += bytes
	if b.allowed -= bytes; b.allowed < 0 && b.err == nil {
		b.err = &wire.ExpansionError{Size: len(b.data)}
	}
}

// kept returns how many members of the object at node i are not trimmed.
func (b *builder) kept(i int32, f *field) int {
	size := int(b.tape.nodes[i].size)
	if f.trim == nil {
		return size
	}
	var member *field
	for at, end := i+1, b.tape.nodes[i].next; at < end; at = b.tape.nodes[at+1].next {
		if member = b.fields.member(f, member, b.name(at)); member.trim.trims() {
			size--
		}
	}
	return size
}

// name returns the text of the name at node i.
func (b *builder) name(i int32) []byte {
	n := &b.tape.nodes[i]
	return b.data[n.start:n.end]
}

// rareName returns the decoded name of a member that has no field of its own.
func (b *builder) rareName(raw []byte, f *field) string {
	if v := b.sharedScalar(raw, f, &f.names, b.newString); v != nil {
		return v.(string)
	}
	return unquote(raw)
}

// array builds the slice of node i.
func (b *builder) array(i int32, f *field) any {
	size := int(b.tape.nodes[i].size)
	if b.spend(24 + 16*size); b.err != nil {
		return nil
	}
	list := newList(size)
	sum := uint64(len(*list))
	at := i + 1
	for k := range *list {
		v := b.value(at, f, place{})
		(*list)[k] = v
		sum = b.elementSum(sum, b.partSum(v))
		at = b.tape.nodes[at].next
	}
	b.sum = sum
	return boxedList(list)
}

// ownArray builds the slice of node i among the object's own.
func (b *builder) ownArray(i int32, f *field, to place) {
	size := int(b.tape.nodes[i].size)
	if b.spend(24 + 16*size); b.err != nil {
		return
	}
	from := b.own.addList(size, to)
	for at := i + 1; at < b.tape.nodes[i].next; at = b.tape.nodes[at].next {
		v := b.value(at, f, place{element: from})
		b.own.elements[from] = v
		from++
	}
}

// string returns the string raw.
func (b *builder) string(raw []byte, f *field, to place) any {
	if len(raw) == len(`""`) {
		return ""
	}
	if v := b.sharedScalar(raw, f, &f.rate, b.newString); v != nil {
		return v
	}
	if b.fixed == 0 && len(raw) <= maxOwn {
		b.own.addString(raw, to)
		return nil
	}
	return b.newString(raw)
}

// sharedScalar looks the string or number raw up, and if it is new, decodes it for the table. It is a value or a name,
// of which r is the rate. The result is nil if it is not wanted, or new and only part of a sample.
func (b *builder) sharedScalar(raw []byte, f *field, r *share.Rate, decode func(raw []byte) any) any {
	if !b.wants(r, raw) {
		return nil
	}
	key := b.table.hash.sum(raw, 0)
	v, seen := b.find(key, raw, f, r, &scalars)
	switch {
	case v != nil:
		return v
	case !seen && r.Mode == share.Sampling:
		b.remember(key, nil, b.fresh)
		return nil
	}
	before := b.fresh
	v = decode(raw)
	b.remember(key, v, before)
	return v
}

func (b *builder) newString(raw []byte) any {
	b.spend(16 + len(raw))
	return boxed(raw)
}

// number returns the number raw: an int64 if it is a whole number without point or exponent that fits, else a
// float64. As with strings, big ones are looked up; small ones cost nothing in Go.
func (b *builder) number(raw []byte, f *field) any {
	if len(raw) > len("99") {
		if v := b.sharedScalar(raw, f, &f.rate, b.newNumber); v != nil {
			return v
		}
	}
	return b.newNumber(raw)
}

func (b *builder) newNumber(raw []byte) any {
	b.spend(8)
	s := string(raw)
	if !strings.Contains(s, ".") {
		if whole, err := strconv.ParseInt(s, 10, 64); err == nil {
			return whole
		}
	}
	float, err := strconv.ParseFloat(s, 64)
	if err != nil && b.err == nil {
		b.err = fmt.Errorf("number %s does not fit into a float64", s)
	}
	return float
}

// find looks a value up and counts the outcome. If another object had it but it was not kept, v is nil and seen true.
// What only this object had before is returned too, but says nothing about whether objects have it in common.
func (b *builder) find(key sum, raw []byte, f *field, r *share.Rate, p *share.Policy) (v any, seen bool) {
	e := b.table.get(key)
	seen = e != nil && e.Object != b.doc
	if seen || e == nil {
		r.Note(p, seen)
	}
	b.lookups++
	f.stats.Lookups++
	f.stats.Bytes += uint64(len(raw))
	if e == nil || e.Value == nil || !b.isSound(e, f, len(raw)) {
		return nil, seen
	}
	b.sum = e.Memory
	b.hits++
	b.saved += uint64(len(raw))
	f.stats.Hits++
	f.stats.SharedBytes += uint64(len(raw))
	return e.Value, seen
}

// remember puts a new value into the table, or nil for one that was only seen. It accounts for what was allocated
// since fresh was before.
func (b *builder) remember(key sum, v any, before int) {
	if b.err == nil {
		b.table.put(key, entry{Value: v, Object: b.doc, Cost: uint32(b.fresh - before), Memory: b.sum}) // of scalars the sum says nothing
	}
	b.fresh = before
}

// mapBytes is about what a map[string]any with size entries takes: a header and groups of eight slots, of which
// a big map keeps an eighth free.
func mapBytes(size int) int {
	const header, group = 48, 288
	if size == 0 {
		return header
	}
	if size <= 8 {
		return header + group
	}
	slots := 1 << bits.Len(uint(size*8/7-1))
	return 2*header + slots/8*group
}
