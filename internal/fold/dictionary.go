package fold

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"sync/atomic"

	"github.com/klauspost/compress/s2"
)

const (
	// MaxDictionary is how many bytes of samples a dictionary can have. s2 refers to no more.
	MaxDictionary = s2.MaxDictSize
	minDictionary = s2.MinDictSize

	// encoderBytes is the memory that s2 needs to pack with a dictionary: a table of 16,384
	// positions. Opening needs none.
	encoderBytes = 2 << 14
	// decoderBytes is roughly the memory of a Dictionary besides its samples.
	decoderBytes = 256
)

// Dictionary is what packed objects of a collection refer to: samples of text that repeats, for s2,
// or one object, the template, for patches. It is immutable and may be used from any goroutine.
type Dictionary struct {
	samples []byte   // with spare capacity, so that s2 need not copy them
	start   uint16   // where an object begins in samples, s2's first guess; templateStart in a template
	decoder *s2.Dict // never used for encoding, so that it has no tables; nil in a template
	sum     uint32   // of a template
	decoded atomic.Pointer[decoded]
	missed  atomic.Uint32 // how often it was wanted but not decoded
}

// decoded is a decoded template, for opening its patches.
type decoded struct {
	object any
	uses   atomic.Uint32
	// seen is uses at the last of so many passes in a row that found it unused.
	seen uint32
	idle int
}

// templateStart marks a template. No dictionary is long enough to have an object there.
const templateStart = math.MaxUint16

// NewTemplate makes a template from an encoded object. It keeps no reference to object.
func NewTemplate(object []byte) *Dictionary { return asTemplate(bytes.Clone(object)) }

// asTemplate makes a template from an encoded object that must not change while the template is used.
func asTemplate(object []byte) *Dictionary {
	return &Dictionary{samples: object[:len(object):len(object)], start: templateStart, sum: crc32.Checksum(object, castagnoli)}
}

// IsTemplate reports whether the dictionary is one object, for patches.
func (d *Dictionary) IsTemplate() bool { return d.decoder == nil }

// Encoded returns the encoding of a template. The caller must not change it.
func (d *Dictionary) Encoded() []byte { return d.samples }

// TemplateUses is how many objects share parts of a decoded template before it is decoded again. It
// bounds how far a forbidden write to one of them spreads.
const TemplateUses = 128 // decoding it takes as long as making several objects

// UseDecoded counts a use and returns the argument of the last KeepDecoded. It is nil after TemplateUses calls;
// kept is false if nothing is kept.
func (d *Dictionary) UseDecoded() (object any, kept bool) {
	now := d.decoded.Load()
	switch {
	case now == nil:
		return nil, false
	case now.uses.Add(1) > TemplateUses:
		return nil, true
	}
	return now.object, true
}

// KeptDecoded returns the argument of the last KeepDecoded without counting a use, for callers that
// make no object from it.
func (d *Dictionary) KeptDecoded() any {
	if now := d.decoded.Load(); now != nil {
		return now.object
	}
	return nil
}

// PassDecoded counts a pass over the decoded templates, and returns how many in a row have found this one unused; 0 if
// nothing is kept. One pass runs at a time.
func (d *Dictionary) PassDecoded() int {
	now := d.decoded.Load()
	if now == nil {
		return 0
	}
	if uses := now.uses.Load(); uses != now.seen {
		now.seen, now.idle = uses, 0
	} else {
		now.idle++
	}
	return now.idle
}

// NoteMissed records that a template was needed but not decoded, and reports whether decoding it pays
// off: every other time.
func (d *Dictionary) NoteMissed() bool { return d.missed.Add(1)%2 == 0 }

// KeepDecoded keeps a decoded template, or nothing if object is nil. It reports whether nothing was kept before.
func (d *Dictionary) KeepDecoded(object any) (first bool) {
	if object == nil {
		return d.decoded.Swap(nil) == nil
	}
	return d.decoded.Swap(&decoded{object: object}) == nil
}

// patchSum is the checksum of a patch's body and its template.
func (d *Dictionary) patchSum(body []byte) uint32 { return crc32.Update(d.sum, castagnoli, body) }

// newDictionary makes a dictionary from samples. It keeps no reference to them. It returns nil if
// they are too short or too long, or if start does not leave the eight bytes after it that s2 reads
// at once.
func newDictionary(samples []byte, start int) *Dictionary {
	if len(samples) < minDictionary || len(samples) > MaxDictionary || start < 0 || start >= len(samples)-8 {
		return nil
	}
	d := &Dictionary{samples: append(make([]byte, 0, len(samples)+16), samples...), start: uint16(start)}
	d.decoder = d.s2()
	if d.decoder == nil {
		return nil
	}
	return d
}

// s2 returns an s2 dictionary that shares the samples. It gets its tables when it first encodes.
func (d *Dictionary) s2() *s2.Dict { return s2.MakeDictManual(d.samples, d.start) }

// Size returns the memory of the dictionary, in bytes, without a decoded template.
func (d *Dictionary) Size() int { return allocated(cap(d.samples)) + decoderBytes }

// AppendTo appends the dictionary to b in the form that ParseDictionary reads.
func (d *Dictionary) AppendTo(b []byte) []byte {
	return append(binary.LittleEndian.AppendUint16(b, d.start), d.samples...)
}

// ParseDictionary reads what AppendTo wrote. It keeps no reference to data. Any bytes of valid
// length are accepted; opening an object with a dictionary other than its own is an error.
func ParseDictionary(data []byte) (*Dictionary, error) {
	if len(data) < 2 {
		return nil, errors.New("a dictionary of less than two bytes")
	}
	start := int(binary.LittleEndian.Uint16(data))
	if start == templateStart {
		if len(data)-2 > maxTemplate {
			return nil, fmt.Errorf("a template of %d bytes", len(data)-2)
		}
		return NewTemplate(data[2:]), nil
	}
	d := newDictionary(data[2:], start)
	if d == nil {
		return nil, fmt.Errorf("a dictionary of %d bytes that begins at %d", len(data)-2, start)
	}
	return d, nil
}
