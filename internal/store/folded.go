package store

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/tree"
	"github.com/tidings/tidings/object"
)

// folded is the entry of a folded object. Snapshots that have it in common share it.
type folded[T object.Object] struct {
	packed fold.Packed
	identity
	// state is twice the number that identifies the opened object in the table, plus 1 if recent keeps that. The entry
	// has no room for more without taking another 16 bytes.
	state atomic.Uint64
}

// newEntry returns an entry whose opened object has the number.
func newEntry[T object.Object](packed fold.Packed, id identity, number uint64) *folded[T] {
	e := &folded[T]{packed: packed, identity: id}
	e.state.Store(2 * number)
	return e
}

// number identifies the opened object in the table. While somebody holds that, readers get the same one.
func (e *folded[T]) number() uint64 { return e.state.Load() / 2 }

// isKept reports whether recent keeps the opened object.
func (e *folded[T]) isKept() bool { return e.state.Load()%2 == 1 }

// setKept records whether recent keeps the opened object, and reports whether that is new.
func (e *folded[T]) setKept(kept bool) bool {
	state := 2 * e.number()
	if kept {
		return e.state.CompareAndSwap(state, state+1)
	}
	return e.state.CompareAndSwap(state+1, state)
}

// newFolded returns the entry of an object that nobody has opened yet.
func (f *folding[T]) newFolded(packed fold.Packed, uid types.UID, version string) *folded[T] {
	return newEntry[T](packed, identityOf(uid, version), f.opened.number())
}

// packedAs returns an entry for the same object, packed in another way. Readers keep getting the same opened object.
func (e *folded[T]) packedAs(packed fold.Packed) *folded[T] {
	return newEntry[T](packed, e.identity, e.number())
}

// folding is the state shared by all snapshots of a store with a codec.
type folding[T object.Object] struct {
	codec     codec.Codec[T]
	patcher   codec.Patcher[T] // the codec, or nil if it is not a Patcher
	typ       reflect.Type     // of the objects, a pointer
	packer    fold.Packer
	recent    recent[T]
	templates templates
	opened    opened
	opens     atomic.Uint64
	costs     costs
	keepsFew  atomic.Bool // what an index has under a value is read like single objects, if it is little
	// unencoded is the reason why the last unencodable object could not be encoded.
	unencoded   atomic.Pointer[string]
	onOpenError func(object.Key, error)
	onStrayPart func(object.Key)
	onOpened    func(object.Key, object.Object)
	onDropped   func(object.Object)
}

// folds are the folded objects of a snapshot or a transaction. It is nil in a store without a codec.
//
// Invariant: the slot of an object has either an entry here or an object in the snapshot's objects.
type folds[T object.Object] struct {
	*folding[T]
	entries tree.Slots[*folded[T]]
	count   int // of the non-nil entries
	// read marks the slots that were read one by one recently; unfoldable those of open objects that cannot be encoded.
	read, unfoldable marks
	idle             idle
	// gone are the packed objects that the transaction has removed.
	gone []fold.Packed
}

// Differ is implemented by codecs whose encodings can be kept as patches of each other. One that is no codec.Patcher
// gets the whole encoding to decode.
type Differ interface {
	Diff(dst, base, data []byte, most int) ([]byte, bool)
}

// UseCodec makes objects of a type foldable. typ is a pointer type: T, or one that implements the
// interface T. Objects of other types, which the codec refuses, stay open. Call UseCodec before the
// first transaction.
func (w *Writer[T]) UseCodec(c codec.Codec[T], typ reflect.Type) {
	w.mustBeIdle("UseCodec")
	if typ.Kind() != reflect.Pointer || !typ.AssignableTo(reflect.TypeFor[T]()) {
		panic(fmt.Sprintf("store: objects of %v cannot be folded: it is no pointer that is a %v", typ, reflect.TypeFor[T]()))
	}
	next := *w.store.Snapshot()
	f := &folding[T]{codec: c, typ: typ, onOpenError: w.options.OnOpenError, onStrayPart: w.options.OnStrayPart}
	f.onOpened, f.onDropped = w.options.OnOpened, w.options.OnDropped
	f.templates.root, f.templates.needed = int64(typ.Elem().Size()), f.packer.Needs
	f.patcher, _ = c.(codec.Patcher[T])
	if differ, ok := c.(Differ); ok {
		f.packer.SetDiffer(differ.Diff)
	}
	next.folds = &folds[T]{folding: f}
	w.store.publish(&next, nil)
}

// empty returns f without objects. f may be nil.
func (f *folds[T]) empty() *folds[T] {
	if f == nil {
		return nil
	}
	return &folds[T]{folding: f.folding, gone: f.gone}
}

// editable returns a copy for a transaction.
func (f *folds[T]) editable() *folds[T] {
	if f == nil {
		return nil
	}
	next := *f
	next.gone = nil
	return &next
}

// at returns the entry of the slot, nil if its object is open.
func (f *folds[T]) at(n tree.Slot) *folded[T] {
	return f.entries.Find(n)
}

// put sets the entry of a slot, nil if its object is open or gone. It also clears the unfoldable mark.
func (f *folds[T]) put(txn uint64, n tree.Slot, e *folded[T]) {
	f.unfoldable.clear(n)
	before := f.at(n)
	if before == e {
		return
	}
	if before != nil {
		f.gone = append(f.gone, before.packed)
		f.count--
	}
	if e != nil {
		f.count++
	}
	f.entries.Set(txn, n, e)
}

// release tells the packer which objects have left the store.
func (f *folds[T]) release() {
	for _, packed := range f.gone {
		f.folding.release(packed)
	}
	f.gone = nil
}

// release tells the packer that an object has left the store. If it was the last to need its
// template, that is not kept decoded any longer.
func (f *folding[T]) release(packed fold.Packed) {
	if template := f.packer.Release(packed); template != nil {
		f.templates.drop(template)
	}
}

// open returns the object of an entry: the one that somebody holds, or else a new one, decoded for
// a single reader or not. If it cannot be opened, open reports why and returns false.
func (f *folding[T]) open(k object.Key, e *folded[T], single bool) (T, bool) {
	if o, ok := f.held(e); ok {
		return o, true
	}
	defer f.costs.end(f.costs.begin(f.opens.Load()))
	o, ok := f.openPatch(f.patcher, e, single)
	if ok {
		return f.register(k, e, f.checked(k, e, o), nil)
	}
	err := e.packed.View(func(data []byte) (err error) {
		o, err = f.decode(data, single)
		return err
	})
	return f.register(k, e, o, err)
}

// openPatch opens an object that is packed as a patch. It returns false for others, and for objects
// to decode as a whole: single ones whose template is not decoded, until more of them are
// requested.
func (f *folding[T]) openPatch(patcher codec.Patcher[T], e *folded[T], single bool) (o T, ok bool) {
	template, patch, ok, err := e.packed.Patch()
	if !ok || err != nil || patcher == nil {
		return o, false
	}
	base, ok := f.base(patcher, template, single)
	if !ok {
		return o, false
	}
	f.opens.Add(1)
	o, err = patcher.DecodePatch(base, patch)
	return o, err == nil && !object.IsNil(o)
}

// base returns a decoded template. It returns false if that cannot be decoded, or if decoding it
// for a single object does not pay off.
func (f *folding[T]) base(patcher codec.Patcher[T], template *fold.Dictionary, single bool) (base T, ok bool) {
	decoded, kept := template.UseDecoded()
	if base, ok = decoded.(T); ok {
		return base, true
	}
	if single && !kept && !template.NoteMissed() {
		return base, false
	}
	base, err := patcher.DecodeBase(template.Encoded())
	if err != nil || object.IsNil(base) {
		return base, false
	}
	f.templates.keep(template, base)
	return base, true
}

// openFrom is open for a single object. It also returns the encoding that the object was decoded
// from, appended to buf, or nil if somebody held the object already or opened it meanwhile.
func (f *folding[T]) openFrom(
	k object.Key, e *folded[T], buf []byte, alone bool,
) (o T, encoded []byte, ok bool) {
	if o, ok := f.held(e); ok {
		return o, nil, true
	}
	defer f.costs.end(f.costs.begin(f.opens.Load()))
	encoded, err := e.packed.Open(buf)
	mine, patched := o, false
	if err == nil {
		if mine, patched = f.openPatch(f.patcher, e, alone); patched {
			mine = f.checked(k, e, mine)
		} else {
			mine, err = f.decode(encoded[len(buf):], alone)
		}
	}
	if o, ok = f.register(k, e, mine, err); any(o) != any(mine) {
		encoded = nil
	}
	return o, encoded, ok
}

// checkEvery: one in checkEvery objects opened from a template is checked, which takes as long as
// opening some ten objects.
const checkEvery = 1024

// checked returns the object of an entry, given what its template and patch made of it. It
// occasionally decodes the object as a whole as well: if the two differ, the template is decoded
// again for others.
func (f *folding[T]) checked(k object.Key, e *folded[T], o T) T {
	if f.onStrayPart == nil || f.opens.Load()%checkEvery != 0 {
		return o
	}
	whole, err := e.whole(f.patcher)
	if err != nil || object.IsNil(whole) || sameEncoding(f.codec, o, whole) {
		return o
	}
	f.templates.drop(e.packed.Dictionary())
	f.onStrayPart(k)
	return whole
}

// whole decodes the object from its bytes, using only parts that nobody can have written to.
func (e *folded[T]) whole(patcher codec.Patcher[T]) (o T, err error) {
	data, err := e.packed.Open(nil)
	if err != nil {
		return o, err
	}
	return patcher.DecodeBase(data)
}

// sameEncoding reports whether o has the same encoding as should, or should cannot be encoded.
func sameEncoding[T object.Object](codec codec.Codec[T], o, should T) bool {
	want, err := codec.Append(nil, should)
	if err != nil {
		return true
	}
	got, err := codec.Append(nil, o)
	return err == nil && bytes.Equal(got, want)
}

func (f *folding[T]) decode(data []byte, single bool) (o T, err error) {
	f.opens.Add(1)
	if single {
		o, err = f.codec.DecodeAlone(data)
	} else {
		o, err = f.codec.Decode(data, *new(T))
	}
	if err == nil && object.IsNil(o) {
		err = errNoObject
	}
	return o, err
}

// register registers a decoded object for the entry, or reports why it could not be decoded.
func (f *folding[T]) register(k object.Key, e *folded[T], o T, err error) (T, bool) {
	if err != nil {
		if f.onOpenError != nil {
			f.onOpenError(k, err)
		}
		return o, false
	}
	if f.onOpened != nil {
		f.onOpened(k, o)
	}
	return f.object(f.opened.put(e.number(), f.pointer(o))), true
}

func (f *folding[T]) pointer(o T) unsafe.Pointer {
	if f.typ == reflect.TypeFor[T]() {
		return *(*unsafe.Pointer)(unsafe.Pointer(&o))
	}
	return reflect.ValueOf(o).UnsafePointer()
}

// object is the inverse of pointer.
func (f *folding[T]) object(p unsafe.Pointer) (o T) {
	if f.typ == reflect.TypeFor[T]() {
		*(*unsafe.Pointer)(unsafe.Pointer(&o)) = p
		return o
	}
	return reflect.NewAt(f.typ.Elem(), p).Interface().(T)
}

// held returns the object of an entry, if somebody holds it.
func (f *folding[T]) held(e *folded[T]) (o T, ok bool) {
	p := f.opened.get(e.number())
	if p == nil {
		return o, false
	}
	return f.object(p), true
}

// keepRecent keeps an object open that was read alone, perhaps in place of another.
func (f *folding[T]) keepRecent(o T, n tree.Slot, e *folded[T]) {
	if e.isKept() {
		return
	}
	if dropped, ok := f.recent.add(o, n, e); ok && f.onDropped != nil {
		f.onDropped(dropped)
	}
}

// recent keeps the latest folded objects that were read one by one open.
type recent[T object.Object] struct {
	mu      sync.Mutex
	objects []recentObject[T] // a ring
	at      map[tree.Slot]int // where in it the object of a slot is: of each there is one state
	next    int
	limit   int
}

// recentObject is the object of an entry, in a slot. idle counts passes that found it unread.
type recentObject[T object.Object] struct {
	object T
	slot   tree.Slot
	idle   int
	entry  *folded[T]
}

// add adds an object. It returns the one whose place that takes, if any.
func (r *recent[T]) add(o T, n tree.Slot, e *folded[T]) (dropped T, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limit == 0 || !e.setKept(true) {
		return dropped, false
	}
	added := recentObject[T]{object: o, slot: n, entry: e}
	i, ok := r.at[n]
	switch {
	case ok:
	case len(r.objects) < r.limit:
		r.objects = append(r.objects, added)
		r.put(len(r.objects)-1, added)
		return dropped, false
	default:
		i = r.next % len(r.objects)
		r.next = i + 1
	}
	before := r.objects[i]
	before.entry.setKept(false)
	delete(r.at, before.slot)
	r.put(i, added)
	return before.object, true
}

// put puts an object in a place of the ring. mu is held.
func (r *recent[T]) put(i int, o recentObject[T]) {
	if r.at == nil {
		r.at = make(map[tree.Slot]int)
	}
	r.objects[i], r.at[o.slot] = o, i
}

func (r *recent[T]) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.objects)
}

// resize limits how many are kept.
func (r *recent[T]) resize(limit int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = max(0, limit)
	if len(r.objects) > r.limit {
		for i := range r.objects[r.limit:] {
			gone := &r.objects[r.limit+i]
			gone.entry.setKept(false)
			delete(r.at, gone.slot)
		}
		r.objects = slices.Clone(r.objects[:r.limit])
	}
}

// forget drops the objects for which is returns true, and returns how many are left.
func (r *recent[T]) forget(is func(*recentObject[T]) bool) (left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := r.objects[:0]
	for i := range r.objects {
		if o := r.objects[i]; is(&o) {
			o.entry.setKept(false)
			delete(r.at, o.slot)
		} else {
			r.at[o.slot] = len(kept)
			kept = append(kept, o)
		}
	}
	clear(r.objects[len(kept):])
	if r.objects = kept; len(kept) < cap(kept)/4 { // a map does not shrink by itself
		r.objects = slices.Clone(kept)
		smaller := make(map[tree.Slot]int, len(kept))
		maps.Copy(smaller, r.at)
		r.at = smaller
	}
	return len(r.objects)
}
