// Package intern makes Go values share the parts in which they are equal: strings, maps, slices and
// what pointers point to.
package intern

import (
	"encoding/binary"
	"hash/maphash"
	"reflect"
	"strings"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tidings/tidings/internal/wire/share"
)

// Interner makes values share parts. A part is looked up by the hash of its contents, and shared
// only if its contents, as they are then, equal those of the value's own part: what somebody has
// written to is not shared any more.
//
//  1. A part that equals the previous version's in the same place is that.
//  2. A part that equals one in the table is that.
//  3. Any other part is copied, if the value is another's, and the same is done for each of its own parts.
//
// What has state besides its contents stays as it is: interfaces, types with unexported fields, and
// types that decode themselves. Only one goroutine at a time may use an Interner.
type Interner struct {
	table *share.Table[part]
	hash  hasher
	rates [][]share.Rate // by the id of a place, in pages
	path  []*ref         // from the value to the current part
	stray []string       // fields of parts that somebody has written to
	owned bool           // the value's parts belong to nobody else
	stats Stats
}

// Stats are an Interner's counters.
type Stats struct {
	Lookups, Hits, SharedBytes, Corrupted uint64
	TableBytes, TableEntries              uint64
}

// part is a part that is shared: a string, a slice, a map or what a pointer points to.
type part struct {
	data unsafe.Pointer
	len  int
}

// sweepEvery is the number of values after which the table drops parts that were not found again.
const sweepEvery = 1 << 12

// New returns an Interner. maxBytes bounds the memory for remembering parts; 0 means a default that
// suits a collection of any size.
func New(maxBytes int) *Interner {
	seed := maphash.MakeSeed()
	return &Interner{table: share.NewTable[part](maxBytes, sweepEvery), hash: hasher{seed: seed, key: maphash.String(seed, "")}}
}

// CanShare reports whether structs of type t can be copied, which Copy requires.
func CanShare(t reflect.Type) bool { return t.Kind() == reflect.Struct && !isOpaque(t) }

// Copy returns a pointer to a copy of the struct that obj points to. The two have no memory in
// common that can be written to, except for what stays as it is. previous is a pointer to an earlier
// version of the struct, or the zero Value.
func (n *Interner) Copy(obj, previous reflect.Value) reflect.Value {
	out := reflect.New(obj.Type().Elem())
	out.Elem().Set(obj.Elem())
	n.share(out, previous, false)
	return out
}

// Share makes the struct that obj points to share parts. Nobody else may have any of them.
func (n *Interner) Share(obj, previous reflect.Value) { n.share(obj, previous, true) }

func (n *Interner) share(obj, previous reflect.Value, owned bool) {
	pl := planOf(obj.Type().Elem())
	if pl.opaque {
		return
	}
	var old unsafe.Pointer
	if previous.IsValid() && previous.Type() == obj.Type() {
		old = previous.UnsafePointer()
	}
	n.owned = owned
	n.value(pl, obj.UnsafePointer(), old)
	n.table.Decoded()
}

// TakeStray returns the dotted names of the fields where shared parts were found that somebody had
// written to, since it was called before. They are not shared again.
func (n *Interner) TakeStray() []string {
	stray := n.stray
	n.stray = nil
	return stray
}

// Stats returns the counters.
func (n *Interner) Stats() Stats {
	stats := n.stats
	stats.TableBytes, stats.TableEntries = n.table.Bytes()+uint64(len(n.rates)*pageRates*int(unsafe.Sizeof(share.Rate{}))), uint64(n.table.Len())
	return stats
}

// The policies of when to look up: parts, which take memory of their own, and strings.
var (
	parts = share.Policy{Direct: 2, Second: 1, First: 64, Window: 512, Sampled: 32}
	texts = share.Policy{Direct: 6, Second: 2, First: 128, Window: 512, Sampled: 32}
)

const pageRates = 64

func (n *Interner) rate(r *ref) *share.Rate {
	page := r.id / pageRates
	for page >= len(n.rates) {
		n.rates = append(n.rates, nil)
	}
	if n.rates[page] == nil {
		n.rates[page] = make([]share.Rate, pageRates)
	}
	return &n.rates[page][r.id%pageRates]
}

// value makes the parts of the value at p shared ones. old is the previous version of the value, or nil.
func (n *Interner) value(pl *plan, p, old unsafe.Pointer) {
	for i := range pl.refs {
		r := pl.refs[i]
		place := at(p, r.offset)
		if r.kind == other || *(*unsafe.Pointer)(place) == nil || r.kind == text && len(*(*string)(place)) == 0 {
			continue
		}
		var before unsafe.Pointer
		if old != nil {
			before = at(old, r.offset)
		}
		n.path = append(n.path, r)
		n.ref(r, place, before)
		n.path = n.path[:len(n.path)-1]
	}
}

// maxDepth bounds how deep parts are within parts. Deeper ones, which no real object has, stay as they are.
const maxDepth = 24

// ref makes what the reference at p refers to a shared part, or one that has shared parts.
func (n *Interner) ref(r *ref, p, old unsafe.Pointer) {
	if len(n.path) > maxDepth {
		return
	}
	if old != nil && equalRefs(r, p, old) {
		r.set(p, r.get(old))
		return
	}
	l := n.lookUp(r, p)
	if l.found {
		return
	}
	if r.kind != text {
		n.parts(r, p, old)
	}
	if l.store {
		n.table.Add(share.Entry[part]{Hash: l.hash, Check: r.salt, Value: r.get(p), Cost: l.cost})
	}
}

// lookup is the outcome of looking for a part in the table.
type lookup struct {
	found bool // the part is now the one that was found
	store bool // it should be stored
	hash  uint64
	cost  uint32
}

// lookUp makes the part at p the one in the table that equals it, if the parts of its place repeat.
func (n *Interner) lookUp(r *ref, p unsafe.Pointer) (l lookup) {
	rate, policy := n.rate(r), &parts
	if r.kind == text {
		policy = &texts
	}
	if rate.Mode == share.Sampling && !rate.Samples(r.class(p)) {
		return l
	}
	n.hash.start()
	l.hash = mix(n.hash.ref(r, p), r.salt)
	if n.hash.odd {
		return l
	}
	l.cost = uint32(min(n.hash.bytes, 1<<30))
	n.stats.Lookups++
	if l.found = n.find(r, p, l.hash); l.found {
		n.stats.Hits++
		n.stats.SharedBytes += uint64(l.cost)
		rate.Note(policy, true)
		return l
	}
	seen := rate.Mode != share.Direct && n.table.SeenBefore(l.hash)
	l.store = seen || rate.Mode == share.Direct
	rate.Note(policy, seen)
	return l
}

// find makes the part at p the one in the table that equals it.
func (n *Interner) find(r *ref, p unsafe.Pointer, hash uint64) bool {
	e := n.table.Find(hash)
	if e == nil || e.Check != r.salt { // so that the part is of the same type
		return false
	}
	if !r.equals(p, e.Value) {
		n.table.Drop(e)
		n.stats.Corrupted++
		n.stray = append(n.stray, n.name())
		return false
	}
	n.table.Use(e)
	r.set(p, e.Value)
	return true
}

// name returns the dotted name of the field that the current part is in.
func (n *Interner) name() string {
	var names []string
	for _, r := range n.path {
		if r.name != "" {
			names = append(names, r.name)
		}
	}
	return strings.Join(names, ".")
}

// class is a hash of the part at p that takes hardly any time.
func (r *ref) class(p unsafe.Pointer) uint64 {
	switch r.kind {
	case text:
		s := *(*string)(p)
		if len(s) < 8 {
			return uint64(len(s)) * mixer >> 32
		}
		return (binary.NativeEndian.Uint64([]byte(s[len(s)-8:])) ^ uint64(len(s))) * mixer >> 32
	case slice:
		return uint64((*header)(p).len) * mixer >> 32
	}
	return 0
}

// get returns the part at p.
func (r *ref) get(p unsafe.Pointer) part {
	switch r.kind {
	case text:
		s := *(*string)(p)
		return part{unsafe.Pointer(unsafe.StringData(s)), len(s)}
	case slice:
		s := (*header)(p)
		return part{s.data, s.len}
	}
	return part{*(*unsafe.Pointer)(p), 0}
}

// set replaces the part at p.
func (r *ref) set(p unsafe.Pointer, by part) {
	switch r.kind {
	case text:
		*(*string)(p) = unsafe.String((*byte)(by.data), by.len)
	case slice:
		*(*header)(p) = header{by.data, by.len, by.len}
	default:
		*(*unsafe.Pointer)(p) = by.data
	}
}

// equals reports whether the part at p equals another of the same type.
func (r *ref) equals(p unsafe.Pointer, other part) bool {
	switch r.kind {
	case text:
		return *(*string)(p) == unsafe.String((*byte)(other.data), other.len)
	case slice:
		return equalRefs(r, p, unsafe.Pointer(&header{other.data, other.len, other.len}))
	}
	return equalRefs(r, p, unsafe.Pointer(&other.data))
}

// parts copies the part at p if it is another's, and makes its own parts shared ones. old is the
// reference in the previous version, or nil.
func (n *Interner) parts(r *ref, p, old unsafe.Pointer) {
	switch r.kind {
	case pointer:
		n.pointee(r, p, old)
	case slice:
		n.elements(r, p, old)
	case mapping:
		n.entries(r, p)
	}
}

func (n *Interner) pointee(r *ref, p, old unsafe.Pointer) {
	to := (*unsafe.Pointer)(p)
	if !n.owned {
		made := reflect.New(r.typ.Elem())
		made.Elem().Set(reflect.NewAt(r.typ.Elem(), *to).Elem())
		*to = made.UnsafePointer()
	}
	var before unsafe.Pointer
	if old != nil {
		before = *(*unsafe.Pointer)(old)
	}
	n.value(r.target(), *to, before)
}

// elements leaves a slice without spare room.
func (n *Interner) elements(r *ref, p, old unsafe.Pointer) {
	s, elem := (*header)(p), r.target()
	size := elem.typ.Size()
	if !n.owned || s.cap > s.len {
		made := reflect.MakeSlice(r.typ, s.len, s.len)
		reflect.Copy(made, reflect.NewAt(r.typ, p).Elem())
		*s = header{made.UnsafePointer(), s.len, s.len}
	}
	if len(elem.refs) == 0 {
		return
	}
	before := header{}
	if old != nil {
		before = *(*header)(old)
	}
	for i := range s.len {
		var b unsafe.Pointer
		if i < before.len {
			b = at(before.data, uintptr(i)*size)
		}
		n.value(elem, at(s.data, uintptr(i)*size), b)
	}
}

// entries puts a map with shared keys and values in the place of the one at p.
func (n *Interner) entries(r *ref, p unsafe.Pointer) {
	switch r.form { // safe as in hasher.mapping
	case textMap:
		m := *(*map[string]string)(p)
		made := make(map[string]string, len(m))
		for k, v := range m {
			made[n.text(r.keys, k)] = n.text(r.texts, v)
		}
		*(*map[string]string)(p) = made
	case quantityMap:
		m := *(*map[string]resource.Quantity)(p)
		made := make(map[string]resource.Quantity, len(m))
		for k, v := range m {
			made[n.text(r.keys, k)] = v
		}
		*(*map[string]resource.Quantity)(p) = made
	default:
		n.anyEntries(r, p)
	}
}

func (n *Interner) anyEntries(r *ref, p unsafe.Pointer) {
	m := reflect.NewAt(r.typ, p).Elem()
	made := reflect.MakeMapWithSize(r.typ, m.Len())
	for entries := m.MapRange(); entries.Next(); {
		value := reflect.New(r.typ.Elem())
		value.Elem().SetIterValue(entries)
		n.value(r.target(), value.UnsafePointer(), nil)
		key := reflect.ValueOf(n.text(r.keys, entries.Key().String())).Convert(r.typ.Key())
		made.SetMapIndex(key, value.Elem())
	}
	m.Set(made)
}

// text returns a string that equals s.
func (n *Interner) text(r *ref, s string) string {
	if s != "" {
		n.ref(r, unsafe.Pointer(&s), nil)
	}
	return s
}
