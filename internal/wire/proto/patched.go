package proto

import (
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/internal/wire/patch"
)

// DecodeBase implements wire.Patcher.
func (dec *Decoder[T]) DecodeBase(data []byte) (T, error) {
	dec.setInPlace(true)
	defer dec.setInPlace(false)
	dec.Recheck()
	return dec.Decode(data, *new(T))
}

// DecodeBase implements wire.Patcher.
func (dec AsInterface[T]) DecodeBase(data []byte) (T, error) {
	dec.setInPlace(true)
	defer dec.setInPlace(false)
	dec.Recheck()
	return dec.Decode(data, *new(T))
}

func (dec *Decoder[T]) setInPlace(inPlace bool) {
	dec.mu.Lock()
	defer dec.mu.Unlock()
	dec.planned().inPlace = inPlace
}

// DecodePatch implements wire.Patcher.
func (dec *Decoder[T]) DecodePatch(base T, p []byte) (T, error) {
	return dec.patchedAs(func() (unsafe.Pointer, error) {
		return dec.planned().patched(*(*unsafe.Pointer)(unsafe.Pointer(&base)), p, sibling{})
	})
}

// DecodeNextPatch implements wire.Patcher.
func (dec *Decoder[T]) DecodeNextPatch(base T, p []byte, other T, otherPatch []byte) (T, error) {
	r := sibling{*(*unsafe.Pointer)(unsafe.Pointer(&other)), otherPatch}
	return dec.patchedAs(func() (unsafe.Pointer, error) {
		return dec.planned().patched(*(*unsafe.Pointer)(unsafe.Pointer(&base)), p, r)
	})
}

func (dec *Decoder[T]) patchedAs(patched func() (unsafe.Pointer, error)) (T, error) {
	dec.mu.Lock()
	defer dec.mu.Unlock()
	out, err := dec.guarded(patched)
	if err != nil {
		var zero T
		return zero, fmt.Errorf("decoding %s: %w", dec.typ.Elem(), redact.Decoding(err))
	}
	return *(*T)(unsafe.Pointer(&out)), nil
}

// DecodePatch implements wire.Patcher. A base of another type is an error.
func (dec AsInterface[T]) DecodePatch(base T, p []byte) (T, error) {
	return dec.patchedAs(base, func(base unsafe.Pointer) (unsafe.Pointer, error) { return dec.Decoder.DecodePatch(base, p) })
}

// DecodeNextPatch implements wire.Patcher. Objects of another type are an error.
func (dec AsInterface[T]) DecodeNextPatch(base T, p []byte, other T, otherPatch []byte) (T, error) {
	return dec.patchedAs(base, func(base unsafe.Pointer) (unsafe.Pointer, error) {
		pointer, err := dec.pointerTo(other)
		if err != nil {
			return nil, err
		}
		return dec.Decoder.DecodeNextPatch(base, p, pointer, otherPatch)
	})
}

func (dec AsInterface[T]) patchedAs(base T, patched func(base unsafe.Pointer) (unsafe.Pointer, error)) (T, error) {
	var none T
	pointer, err := dec.pointerTo(base)
	if err != nil {
		return none, err
	}
	out, err := patched(pointer)
	if err != nil {
		return none, err
	}
	return reflect.NewAt(dec.typ.Elem(), out).Interface().(T), nil
}

// pointerTo returns o as a pointer.
func (dec AsInterface[T]) pointerTo(o T) (unsafe.Pointer, error) {
	v := reflect.ValueOf(o)
	if !v.IsValid() || v.Type() != dec.typ {
		return nil, fmt.Errorf("decoding %s: the base is a %T", dec.typ.Elem(), o)
	}
	return v.UnsafePointer(), nil
}

// sibling is another object made from the same base, with its patch; the zero value is none.
type sibling struct {
	object unsafe.Pointer
	patch  []byte
}

// patched applies the patch to base and returns a pointer to the new value of the root type. Parts
// shared with the sibling are taken from it.
func (d *decoder) patched(base unsafe.Pointer, p []byte, of sibling) (unsafe.Pointer, error) {
	if d.root == nil || base == nil {
		return nil, patch.ErrBroken
	}
	d.arena = arenas.Get().(*arena)
	defer d.release()
	d.arena.reset()
	d.begin(false, false)
	d.depth, d.cost, d.allowance = 0, 0, wire.Allowance(len(p))+patchRoom
	d.patching, d.sameSpec = true, false
	defer func() { d.patching = false }()
	r, _ := patch.NewReader(p)
	out, err := d.cloneAndPatch(r, base, of)
	if err == nil {
		err = r.Finish()
	}
	if err != nil {
		return nil, err
	}
	d.arena.settle()
	d.stats.Objects++
	return out, nil
}

func (d *decoder) cloneAndPatch(r *patch.Reader, base unsafe.Pointer, of sibling) (out unsafe.Pointer, err error) {
	if of.object == nil {
		out = cloneValue(d.typed, base)
		return out, d.entries(r, d.root, out)
	}
	out = cloneValue(d.typed, of.object)
	other, _ := patch.NewReader(of.patch)
	if err = d.repatchEntries(r, other, d.root, out, base); err == nil {
		err = other.Finish()
	}
	return out, err
}

// patchRoom is the memory an object may take beyond the allowance for its patch. Copies of the
// base's memory do not count.
const patchRoom = 1 << 20

// entries changes the message at p, a copy of the base's message, by the entries up to the next end.
func (d *decoder) entries(r *patch.Reader, m *message, p unsafe.Pointer) error {
	if d.depth++; d.depth > maxDepth {
		return errDepth
	}
	for last := int32(0); ; {
		number, action := r.Entry()
		if action == patch.End {
			d.depth--
			return r.Err()
		}
		if number <= last { // a value with deferred parts must not be copied
			return patch.ErrBroken
		}
		last = number
		if err := d.entry(r, m, number, p, action); err != nil {
			return err
		}
		if d.allowance < 0 {
			return errAllowance
		}
	}
}

// entry applies an entry to its field of the message at whole.
func (d *decoder) entry(r *patch.Reader, m *message, number int32, whole unsafe.Pointer, action patch.Action) error {
	f := d.fieldOf(m, number)
	p := unsafe.Add(whole, f.offset)
	switch {
	case action == patch.Drop:
		f.clear(p)
		return nil
	case action == patch.Set: // decoding a field merges it into what is there
		f.clear(p)
		return d.message(m, whole, nil, r.Fields(number))
	case f.op == skipOp: // an unknown field can only be Set
	case (action == patch.Splice || action == patch.Digits) && f.op == stringOp:
		d.splice(r, action, (*string)(p))
		return nil
	case (action == patch.Splice || action == patch.Digits) && f.op == valueOp && f.kind == bytesKind:
		return d.spliceBytes(r, action, (*[]byte)(p))
	case action == patch.Shift && f.isTime():
		return d.shift(r, f, p)
	case action == patch.Within && f.op == valueOp && f.isMessage():
		return d.entries(r, d.plan(f), p)
	case action == patch.Within && f.op == pointerOp && f.isMessage():
		return d.within(r, f, (*unsafe.Pointer)(p))
	case action == patch.List && f.op == listOp:
		return d.patchedList(r, f, (*header)(p))
	}
	return patch.ErrBroken
}

// within replaces the message that holder points to with a changed copy.
func (d *decoder) within(r *patch.Reader, f *field, holder *unsafe.Pointer) error {
	if *holder == nil {
		return patch.ErrBroken
	}
	*holder = cloneValue(f.typed, *holder)
	return d.entries(r, d.plan(f), *holder)
}

// splice applies the change of a string to *s.
func (d *decoder) splice(r *patch.Reader, action patch.Action, s *string) {
	before, behind, between := r.Spliced(action, len(*s), &d.digits)
	old := *s
	if before+behind == 0 {
		d.ownString(s, between)
		return
	}
	if before+len(between)+behind >= maxDeferred {
		*s = old[:before] + string(between) + old[len(old)-behind:]
		return
	}
	d.arena.joined(s, old[:before], between, old[len(old)-behind:])
}

func (d *decoder) spliceBytes(r *patch.Reader, action patch.Action, b *[]byte) error {
	before, behind, between := r.Spliced(action, len(*b), &d.digits)
	old := *b
	if size := before + len(between) + behind; size >= maxDeferred {
		joined := make([]byte, 0, size)
		*b = append(append(append(joined, old[:before]...), between...), old[len(old)-behind:]...)
	} else {
		d.arena.rawJoined(b, old[:before], between, old[len(old)-behind:])
	}
	return r.Err()
}

// isTime reports whether the field holds a single time.
func (f *field) isTime() bool {
	return (f.kind == timeKind || f.kind == microTimeKind) && (f.op == timeOp || f.op == valueOp || f.op == pointerOp)
}

// shift changes the seconds of the time at p, or of the time that p points to.
func (d *decoder) shift(r *patch.Reader, f *field, p unsafe.Pointer) error {
	was := p
	if f.op == pointerOp {
		holder := (*unsafe.Pointer)(p)
		if was = *holder; was == nil {
			return patch.ErrBroken
		}
		// The time that was there stays: the base has it, too.
		if p = d.arena.time(holder); p == nil {
			p = d.alloc(f.typ, f.size)
			*holder = p
		}
	}
	seconds := r.Shifted((*time.Time)(was).Unix())
	*(*time.Time)(p) = time.Unix(seconds, 0)
	return r.Err()
}

// patchedList replaces the list at p with a copy and changes its elements.
func (d *decoder) patchedList(r *patch.Reader, f *field, slice *header) error {
	old := *slice
	n := r.Count(old.len)
	if n == 0 {
		return patch.ErrBroken
	}
	if err := d.copyList(f, slice, n); err != nil {
		return err
	}
	for k := 0; ; k++ {
		gap, change := r.Element()
		if change == patch.EndList {
			if k < n && old.len < n {
				return patch.ErrBroken
			}
			return r.Err()
		}
		if k += gap; k >= n || gap > n || gap > 0 && k > old.len {
			return patch.ErrBroken
		}
		if err := d.patchedElement(r, f, unsafe.Add(slice.data, uintptr(k)*f.size), change, k < old.len); err != nil {
			return err
		}
	}
}

// copyList replaces the list with a copy of length n, truncated or padded with zero elements.
func (d *decoder) copyList(f *field, slice *header, n int) error {
	old := *slice
	copied := min(n, old.len)
	d.allowance += copied * int(f.size) // copies of the base's memory are free: see patchRoom
	if array := f.arrayOf(n); copied == n && array != nil {
		d.spend(n * int(f.size))
		*slice = header{cloneValue(array, old.data), n, n}
		return nil
	}
	*slice = header{}
	if err := d.extend(f, slice, n); err != nil {
		return err
	}
	for k := range copied {
		at := uintptr(k) * f.size
		copyValue(f.typed, unsafe.Add(slice.data, at), unsafe.Add(old.data, at))
	}
	return nil
}

// patchedElement changes the element at p. was says whether it is a copy of the base's element.
func (d *decoder) patchedElement(r *patch.Reader, f *field, p unsafe.Pointer, change patch.Change, was bool) error {
	switch {
	case change == patch.NewElement:
		valueAt(f.typed, p).SetZero()
		return d.value(f, f.element, p, nil, r.Bytes())
	case !was:
	case change == patch.SpliceElement && f.kind == stringKind:
		d.splice(r, patch.Splice, (*string)(p))
		return r.Err()
	case change == patch.WithinElement && f.isMessage():
		return d.entries(r, d.plan(f), p)
	}
	return patch.ErrBroken
}
