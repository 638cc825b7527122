package fold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"unsafe"

	"github.com/klauspost/compress/s2"

	"github.com/tidings/tidings/internal/wire/patch"
)

// MaxOpened bounds the bytes that a compressed object may open to. Larger objects are stored as is,
// so that bytes from an unknown source cannot ask for more memory than this.
const MaxOpened = 32 << 20

// ErrCorrupt is wrapped by every error about bytes that do not open to what was packed.
var ErrCorrupt = errors.New("corrupt packed object")

// The bytes of a Packed begin with its form and the checksum of the opened bytes; for a patch the
// checksum is over its template and the bytes that follow, which include the checksum of the opened
// bytes.
const headerSize = 1 + 4

const (
	formRaw            = 1 + iota // as is: not smaller when packed without a dictionary
	formBlock                     // an s2 block
	formDictionary                // an s2 block with references to a dictionary
	formIncompressible            // as is: too short, too long, or not smaller with a dictionary
	formPatch                     // length and checksum of the opened bytes, and a patch of a template
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Packed is one packed object. It is a small immutable value that may be copied and used from any
// goroutine. The zero value holds no object.
type Packed struct {
	dict *Dictionary // set for formDictionary and formPatch, where it is a template
	data string
}

// FromBytes returns the packed object with these bytes, as returned by Bytes, and the dictionary
// returned by Dictionary. It keeps no reference to data. It validates what it can without opening
// the object: bytes that are not a packed object may pass, and then fail to open.
func FromBytes(dict *Dictionary, data []byte) (Packed, error) {
	p := Packed{dict: dict, data: string(data)}
	if _, err := p.opened(); err != nil {
		return Packed{}, err
	}
	return p, nil
}

// Bytes returns the packed bytes, for writing them together with Dictionary. The caller must not change them.
func (p Packed) Bytes() []byte { return unsafe.Slice(unsafe.StringData(p.data), len(p.data)) }

// Dictionary returns the dictionary needed to open the object, or nil if it needs none.
func (p Packed) Dictionary() *Dictionary { return p.dict }

// IsZero reports whether this is the zero value, which holds no object.
func (p Packed) IsZero() bool { return p.data == "" }

// Size returns the number of packed bytes. It does not count the Packed itself, 24 bytes, or the dictionary.
func (p Packed) Size() int { return len(p.data) }

// HeapSize returns the heap memory of the packed bytes.
func (p Packed) HeapSize() int { return allocated(len(p.data)) }

// Len returns the number of bytes that the object opens to, 0 if it cannot be opened.
func (p Packed) Len() int {
	n, err := p.opened()
	if err != nil {
		return 0
	}
	return n
}

// opened validates the header and returns the number of bytes that the object opens to.
func (p Packed) opened() (int, error) {
	if len(p.data) < headerSize {
		return 0, fmt.Errorf("%w: %d bytes are less than a header", ErrCorrupt, len(p.data))
	}
	form := p.data[0]
	if (form == formDictionary) != (p.dict != nil && !p.dict.IsTemplate()) || (form == formPatch) != (p.dict != nil && p.dict.IsTemplate()) {
		return 0, fmt.Errorf("%w: its form is %d, and that it has a dictionary is %t", ErrCorrupt, form, p.dict != nil)
	}
	switch form {
	case formRaw, formIncompressible:
		return len(p.data) - headerSize, nil
	case formBlock, formDictionary:
		return blockLen(p.Bytes()[headerSize:])
	case formPatch:
		n, _, _, err := p.patch()
		return n, err
	default:
		return 0, fmt.Errorf("%w: unknown form %d", ErrCorrupt, form)
	}
}

// blockLen returns the decoded length that an s2 block claims.
func blockLen(block []byte) (int, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if n > MaxOpened {
		return 0, fmt.Errorf("%w: it claims to open to %d bytes, over the limit of %d", ErrCorrupt, n, MaxOpened)
	}
	return n, nil
}

// Open appends the object's bytes to dst and returns the extended slice. Errors wrap ErrCorrupt;
// the slice is then dst, but memory beyond its end may have been written to.
func (p Packed) Open(dst []byte) ([]byte, error) {
	n, err := p.opened()
	if err != nil {
		return dst, err
	}
	out := grow(dst, n)
	body := out[len(dst):]
	if p.is(formPatch) {
		if err := p.apply(body); err != nil {
			return dst, err
		}
		return out, nil
	}
	if err := p.decode(body); err != nil {
		return dst, err
	}
	if err := p.check(crc32.Checksum(body, castagnoli)); err != nil {
		return dst, err
	}
	return out, nil
}

// patch returns the number of bytes that the object opens to, their checksum, and the patch from the template to them.
func (p Packed) patch() (opened int, sum uint32, patch []byte, err error) {
	body := p.Bytes()[headerSize:]
	n, width := binary.Uvarint(body)
	if width <= 0 || n > MaxOpened || len(body) < width+4 {
		return 0, 0, nil, fmt.Errorf("%w: it claims to open to %d bytes", ErrCorrupt, n)
	}
	return int(n), binary.LittleEndian.Uint32(body[width:]), body[width+4:], nil
}

// Patch returns the template and the patch of an object stored as a patch, or false if it is packed
// in another way. The error wraps ErrCorrupt.
func (p Packed) Patch() (template *Dictionary, patch []byte, ok bool, err error) {
	if !p.is(formPatch) || p.dict == nil {
		return nil, nil, false, nil
	}
	if _, _, patch, err = p.patch(); err == nil {
		err = p.check(p.dict.patchSum(p.Bytes()[headerSize:]))
	}
	return p.dict, patch, true, err
}

// IsPatch reports whether the object is stored as a patch of a template, which is its Dictionary.
func (p Packed) IsPatch() bool { return p.is(formPatch) }

// check compares sum with the checksum in the header.
func (p Packed) check(sum uint32) error {
	if sum != p.checksum() {
		return fmt.Errorf("%w: its checksum is %08x, not %08x", ErrCorrupt, sum, p.checksum())
	}
	return nil
}

// apply writes the object's bytes to body, which has exactly their length.
func (p Packed) apply(body []byte) error {
	template, change, _, err := p.Patch()
	if err != nil {
		return err
	}
	got, err := patch.Apply(body[:0], template.samples, change, len(body))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(got) != len(body) {
		return fmt.Errorf("%w: it opens to %d bytes, not %d", ErrCorrupt, len(got), len(body))
	}
	copy(body, got) // a no-op unless appending has reallocated
	if _, sum, _, _ := p.patch(); sum != crc32.Checksum(body, castagnoli) {
		return fmt.Errorf("%w: it opens to other bytes than those that were packed", ErrCorrupt)
	}
	return nil
}

// decode writes the object's bytes to body, which has exactly their length.
func (p Packed) decode(body []byte) error {
	packed := p.Bytes()[headerSize:]
	var got []byte
	var err error
	switch p.data[0] {
	case formRaw, formIncompressible:
		copy(body, packed)
		return nil
	case formBlock:
		got, err = s2.Decode(body, packed)
	default:
		got, err = p.dict.decoder.Decode(body, packed)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(got) != len(body) {
		return fmt.Errorf("%w: it opens to %d bytes, not %d", ErrCorrupt, len(got), len(body))
	}
	return nil
}

func (p Packed) checksum() uint32 { return binary.LittleEndian.Uint32(p.Bytes()[1:]) }

// View opens the object into a pooled buffer and calls read with it. The bytes are valid only until read returns.
// It returns the error of read, or one that wraps ErrCorrupt if it could not open the object.
func (p Packed) View(read func(data []byte) error) error {
	buf := getBuffer(p.Len())
	defer putBuffer(buf)
	data, err := p.Open((*buf)[:0])
	if err != nil {
		return err
	}
	return read(data)
}

// is reports whether the object has this form.
func (p Packed) is(form byte) bool { return len(p.data) > 0 && p.data[0] == form }

// seal returns a packed object of these parts, with the checksum of the opened bytes.
func seal(form byte, dict *Dictionary, body, opened []byte) Packed {
	return sealSum(form, dict, body, crc32.Checksum(opened, castagnoli))
}

func sealSum(form byte, dict *Dictionary, body []byte, sum uint32) Packed {
	data := make([]byte, headerSize+len(body))
	data[0] = form
	binary.LittleEndian.PutUint32(data[1:], sum)
	copy(data[headerSize:], body)
	return Packed{dict: dict, data: unsafe.String(&data[0], len(data))} // nothing else refers to data
}
