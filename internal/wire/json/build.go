package json

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"

	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/share"
)

// builder builds values from the nodes of one document after another.
//
// A value whose field tends to repeat is looked up by its text; a new one is built and put into the
// table. The strings and slices that only this object has would cost two small allocations each, so
// they are collected while the object is built and allocated together at the end; see arena.
type builder struct {
	tape   tape
	data   []byte
	fields *fields
	table  *table
	shared bool // values may be shared

	arena         arena
	noDefer       int    // above 0, strings and slices are allocated at once, because the value goes into the table or is built a second time
	doc           uint32 // number of the document; it may wrap
	unaccounted   int    // bytes allocated that no table entry accounts for
	allowed       int    // bytes that may still be allocated for this document
	budget        int    // bytes of maps and slices that may still be hashed in this document
	hasDuplicates bool   // an object had a duplicate name
	empty         any    // the shared {}
	none          any    // the shared []
	sum           uint64 // while noDefer is above 0, the checksum of the map or slice built or found last
	lookups       uint64
	hits          uint64
	saved         uint64 // bytes of text that hits saved decoding
	err           error  // the first number that does not fit, or the expansion error
	// corrupted are the names of fields where a shared value turned out to have been written to.
	corrupted  []string
	visitsLeft int // number of values that a checksum may still visit
}

const (
	// maxArenaText bounds the strings that are collected, so that small ones do not keep a big one
	// alive, and the texts of the maps that are compared, so that deep nesting cannot take
	// quadratic time.
	maxArenaText = 1024
	// maxHashed bounds how often each byte is hashed as part of another map or slice around it, so that deep nesting
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
	b.data, b.err, b.hasDuplicates, b.budget = data, nil, false, maxHashed*len(data)
	b.doc++
	noDefer := 0
	if !b.shared {
		noDefer = 1 // what the object's owner removes from it must not stay in a block
	}
	object := b.root(noDefer)
	if b.hasDuplicates && b.err == nil {
		// settle could overwrite the last of the duplicates: build again without deferring anything.
		object = b.root(1)
	}
	b.data = nil
	if b.err != nil {
		b.arena.reset()
		return nil, b.err
	}
	b.arena.settle()
	return object, nil
}

func (b *builder) root(noDefer int) map[string]any {
	b.arena.reset()
	b.noDefer, b.unaccounted, b.allowed = noDefer, 0, wire.Allowance(len(b.data))
	return b.object(0, b.fields.root)
}

// value returns the value of node i, destined for to. A string or slice that only the object has is nil for now: settle
// stores it.
func (b *builder) value(i int32, f *field, to place) any {
	n := &b.tape.nodes[i]
	switch n.kind {
	case kindNull:
		return nil
	case kindTrue:
		return true
	case kindFalse:
		return false
	case kindNumber:
		return b.number(b.data[n.start:n.end], f)
	case kindString:
		return b.string(b.data[n.start:n.end], f, to)
	default:
		return b.container(i, f, to)
	}
}

// container returns the map or slice of node i, shared if this or another object has an equal one.
func (b *builder) container(i int32, f *field, to place) any {
	n := &b.tape.nodes[i]
	isMap := n.kind == kindBeginObject
	switch {
	case !b.shared:
		return b.fill(i, f, to)
	case n.size == 0 && isMap:
		b.sum = 0
		return b.emptyMap(f)
	case n.size == 0:
		b.sum = 0
		return b.none
	case !isMap || b.noDefer > 0 || n.end-n.start > maxArenaText:
		return b.sharedContainer(i, f, to)
	}
	// Containers that started together have equal state maps, and they mount the same volume.
	m := recentMap{text: b.data[n.start:n.end], trim: f.trim}
	if m.value = b.arena.mapLike(m); m.value == nil {
		m.value = b.sharedContainer(i, f, to)
		b.arena.addMap(m)
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

// sharedContainer returns the map or slice of node i, shared if another object has an equal one.
func (b *builder) sharedContainer(i int32, f *field, to place) any {
	n := &b.tape.nodes[i]
	raw := b.data[n.start:n.end]
	if b.budget < len(raw) {
		return b.fill(i, f, to)
	}
	b.budget -= len(raw)
	r := &f.rate
	if n.kind == kindBeginObject {
		r = b.rateOfMaps(i, f)
	}
	if !b.shouldLookUp(r, raw) {
		return b.fill(i, f, to)
	}
	key := b.table.hash.sum(raw, f.trim.saltOf())
	v, seen := b.find(key, raw, f, r, &containers)
	switch {
	case v != nil:
		return v
	case !seen && r.Mode == share.Sampling:
		b.remember(key, nil, b.unaccounted)
		return b.fill(i, f, to)
	}
	before := b.unaccounted
	b.noDefer++
	v = b.fill(i, f, to)
	b.noDefer--
	b.remember(key, v, before)
	return v
}

// rateOfMaps returns the rate that counts the map of node i, which must not be empty. Maps of
// several kinds usually differ in their second name, unless names are data: the first is often a
// name or type.
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
	case b.tape.nodes[i].kind == kindBeginObject:
		return b.object(i, f)
	case b.noDefer == 0:
		b.arenaArray(i, f, to)
		return nil
	default:
		return b.array(i, f)
	}
}

// object builds the map of node i. The last of members with the same name wins.
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
		if b.noDefer > 0 && b.shared {
			sum += b.memberSum(name, b.partSum(v))
		}
	}
	if b.sum = sum; len(m) != size {
		b.hasDuplicates, b.sum = true, b.checksumOf(m, len(b.data))
	}
	return m
}

// spend records memory about to be allocated, and sets an error if it exceeds the allowance.
func (b *builder) spend(bytes int) {
	b.unaccounted += bytes
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
		if b.shared {
			sum = b.elementSum(sum, b.partSum(v))
		}
		at = b.tape.nodes[at].next
	}
	b.sum = sum
	return boxedList(list)
}

// arenaArray builds the slice of node i as one that only the object has.
func (b *builder) arenaArray(i int32, f *field, to place) {
	size := int(b.tape.nodes[i].size)
	if b.spend(24 + 16*size); b.err != nil {
		return
	}
	from := b.arena.addList(size, to)
	for at := i + 1; at < b.tape.nodes[i].next; at = b.tape.nodes[at].next {
		v := b.value(at, f, place{element: from})
		b.arena.elements[from] = v
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
	if b.noDefer == 0 && len(raw) <= maxArenaText {
		b.arena.addString(raw, to)
		return nil
	}
	return b.newString(raw)
}

// sharedScalar looks up the string or number raw, a value or a name with rate r. A new one is
// decoded for the table. The result is nil if raw should not be looked up, or is new and only
// sampled.
func (b *builder) sharedScalar(raw []byte, f *field, r *share.Rate, decode func(raw []byte) any) any {
	if !b.shared || !b.shouldLookUp(r, raw) {
		return nil
	}
	key := b.table.hash.sum(raw, 0)
	v, seen := b.find(key, raw, f, r, &scalars)
	switch {
	case v != nil:
		return v
	case !seen && r.Mode == share.Sampling:
		b.remember(key, nil, b.unaccounted)
		return nil
	}
	before := b.unaccounted
	v = decode(raw)
	b.remember(key, v, before)
	return v
}

func (b *builder) newString(raw []byte) any {
	b.spend(16 + len(raw))
	return boxed(raw)
}

// number returns the number raw: an int64 if it has no point or exponent and fits, else a float64.
// Like strings, long ones are looked up; Go boxes small ones without allocating.
func (b *builder) number(raw []byte, f *field) any {
	if len(raw) > len("99") {
		if v := b.sharedScalar(raw, f, &f.rate, b.newNumber); v != nil {
			return v
		}
	}
	return b.newNumber(raw)
}

var errNumber = errors.New("a number does not fit into a float64")

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
		b.err = errNumber
	}
	return float
}

// find looks a value up and counts the outcome. If another object had it but it was not stored, v
// is nil and seen true. A value that only this object had before is returned too, but does not
// count as repeating.
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

// remember puts a new value into the table, or nil to record that it was seen. The entry accounts
// for what was allocated since unaccounted was before.
func (b *builder) remember(key sum, v any, before int) {
	if b.err == nil {
		b.table.put(key, entry{Value: v, Object: b.doc, Cost: uint32(b.unaccounted - before), Memory: b.sum}) // for scalars the sum is meaningless
	}
	b.unaccounted = before
}

// mapBytes estimates the memory of a map[string]any with size entries: a header and groups of eight slots; a big map
// keeps an eighth of them free.
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
