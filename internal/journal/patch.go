package journal

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// A patch makes one text from another, its base, whatever their encoding:
//
//	length of the result, then until that is reached:
//	  length of new text, the text
//	  length to copy from the base, where to begin: the difference to the end of the previous copy and the new text
//
// All numbers are varints, the difference is zigzag-encoded. Where a value was replaced by one of the same length, the
// difference is 0. The last copy may be missing.

// errPatch says that a patch does not fit its base.
var errPatch = errors.New("a patch does not fit its base")

const (
	// word is the number of bytes that are looked up, and the shortest copy.
	word = 8
	// stride is the distance of the positions of the base that are indexed.
	stride = 4
	// maxTable is the largest table that is kept between patches.
	maxTable = 1 << 16
)

// differ makes patches. It is for one goroutine.
type differ struct {
	table []int32 // positions in the base by hash, plus 1
	out   []byte
}

// patch returns a patch that makes target from base.
func (d *differ) patch(base, target []byte) string {
	d.out = binary.AppendUvarint(d.out[:0], uint64(len(target)))
	shift := d.index(base)
	written, end := 0, 0 // of target; in base, behind the last copy and what replaced
	for i := 0; i < len(target); {
		from, at, n := d.match(base, target, i, written, end+i-written, shift)
		if n == 0 {
			i++
			continue
		}
		d.out = binary.AppendUvarint(d.out, uint64(from-written))
		d.out = append(d.out, target[written:from]...)
		d.out = binary.AppendUvarint(d.out, uint64(n))
		d.out = binary.AppendVarint(d.out, int64(at-(end+from-written)))
		i, written, end = from+n, from+n, at+n
	}
	if written < len(target) {
		d.out = binary.AppendUvarint(d.out, uint64(len(target)-written))
		d.out = append(d.out, target[written:]...)
	}
	if cap(d.table) > maxTable {
		d.table = nil
	}
	return string(d.out)
}

// index fills the table for a base, and returns the shift of its hashes.
func (d *differ) index(base []byte) (shift int) {
	size := 1 << bits.Len(uint(len(base)/stride+1))
	if cap(d.table) < size {
		d.table = make([]int32, size)
	}
	d.table = d.table[:size]
	clear(d.table)
	shift = 64 - bits.Len(uint(size-1))
	for i := len(base) - word; i >= 0; i-- {
		if i%stride == 0 {
			d.table[hash(base[i:], shift)] = int32(i + 1)
		}
	}
	return shift
}

func hash(b []byte, shift int) uint64 {
	return binary.LittleEndian.Uint64(b) * 0x9e3779b97f4a7c15 >> shift
}

// match returns a run that target, around i and not before written, has in common with base: where
// it begins in both, and its length, 0 if there is none. It tries expected, a place in base, first.
func (d *differ) match(base, target []byte, i, written, expected, shift int) (from, at, n int) {
	if expected >= 0 && expected < len(base) {
		if n := common(base[expected:], target[i:]); n >= word {
			return i, expected, n
		}
	}
	if len(target)-i < word {
		return 0, 0, 0
	}
	at = int(d.table[hash(target[i:], shift)]) - 1
	if at < 0 {
		return 0, 0, 0
	}
	n = common(base[at:], target[i:])
	if n < word {
		return 0, 0, 0
	}
	from = i
	for from > written && at > 0 && base[at-1] == target[from-1] {
		from, at, n = from-1, at-1, n+1
	}
	return from, at, n
}

// common returns the length of the common prefix.
func common(a, b []byte) (n int) {
	most := min(len(a), len(b))
	for n+word <= most {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += word
	}
	for n < most && a[n] == b[n] {
		n++
	}
	return n
}

// apply appends to dst what a patch makes from base.
func apply(dst, base []byte, patch string) ([]byte, error) {
	r := patchReader{patch: patch}
	size := r.number()
	if size > uint64(len(patch))+uint64(len(base))*uint64(len(patch)) { // no copy is longer than the base
		return dst, errPatch
	}
	start, end := len(dst), 0
	for !r.broken && uint64(len(dst)-start) < size {
		n := r.number()
		if n > uint64(len(r.patch)) || n > size-uint64(len(dst)-start) {
			return dst, errPatch
		}
		dst, end = append(dst, r.patch[:n]...), end+int(n)
		if r.patch = r.patch[n:]; r.patch == "" {
			break
		}
		n, from := r.number(), r.difference()
		if from += int64(end); from < 0 || from > int64(len(base)) || n > uint64(int64(len(base))-from) {
			return dst, errPatch
		}
		dst, end = append(dst, base[from:from+int64(n)]...), int(from)+int(n)
	}
	if r.broken || r.patch != "" || uint64(len(dst)-start) != size {
		return dst, errPatch
	}
	return dst, nil
}

// patchReader reads the numbers of a patch. Once one is malformed, it is broken.
type patchReader struct {
	patch  string
	broken bool
}

func (r *patchReader) number() (n uint64) {
	for i := 0; i < min(len(r.patch), binary.MaxVarintLen64); i++ {
		b := r.patch[i]
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			r.patch = r.patch[i+1:]
			return n
		}
	}
	r.broken, r.patch = true, ""
	return 0
}

func (r *patchReader) difference() int64 {
	n := r.number()
	return int64(n>>1) ^ -int64(n&1)
}
