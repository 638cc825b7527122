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

	// encoderBytes is what s2 adds to a dictionary to pack with it: a table of 16,384 positions. Opening needs none.
	encoderBytes = 2 << 14
	// decoderBytes is about what a Dictionary takes beside its samples.
	decoderBytes = 256
)

// Dictionary is what packed objects of one collection have in common: parts that come up again and again, for s2 to refer to, or one object, the template,
// of which others are patches. It is immutable; any goroutine may use it.
type Dictionary struct {
	samples []byte   // with room behind them, so that s2 need not copy them
	start   uint16   // where in samples an object begins: the first guess of s2. It is templateStart in a template.
	decoder *s2.Dict // never used for encoding, so that it has no tables; nil in a template
	sum     uint32   // of a template
	decoded atomic.Pointer[decoded]
	missed  atomic.Uint32 // how often it was not decoded when it was wanted
}

// decoded is what a template was decoded to, for whoever opens its patches.
type decoded struct {
	object any
	uses   atomic.Uint32
}

// templateStart marks a template where a dictionary has the place of an object. No dictionary is so long.
const templateStart = math.MaxUint16

// NewTemplate makes a template of an encoded object, of which it keeps no reference.
func NewTemplate(object []byte) *Dictionary { return asTemplate(bytes.Clone(object)) }

// asTemplate makes a template of an encoded object that nobody changes as long as it is used.
func asTemplate(object []byte) *Dictionary {
	return &Dictionary{samples: object[:len(object):len(object)], start: templateStart, sum: crc32.Checksum(object, castagnoli)}
}

// IsTemplate reports whether the dictionary is one object, of which others are patches.
func (d *Dictionary) IsTemplate() bool { return d.decoder == nil }

// Encoded returns the encoding of a template. The caller must not change it.
func (d *Dictionary) Encoded() []byte { return d.samples }

// TemplateUses is how many objects a decoded template becomes a part of, before it is decoded again: who writes to one of them, against the rules, writes to
// what these have in common.
const TemplateUses = 32

// Decoded returns what KeepDecoded was called with last. It is nil if that was asked for TemplateUses times, and kept is false if there is none.
func (d *Dictionary) Decoded() (object any, kept bool) {
	now := d.decoded.Load()
	switch {
	case now == nil:
		return nil, false
	case now.uses.Add(1) > TemplateUses:
		return nil, true
	}
	return now.object, true
}

// KeptDecoded returns what KeepDecoded was called with last, however often Decoded was asked, to somebody who makes no object of it.
func (d *Dictionary) KeptDecoded() any {
	if now := d.decoded.Load(); now != nil {
		return now.object
	}
	return nil
}

// IsWanted notes that a template is not decoded where one object needs it, and reports whether it pays to: every other time.
func (d *Dictionary) IsWanted() bool { return d.missed.Add(1)%2 == 0 }

// KeepDecoded keeps what a template was decoded to, or nothing if that is nil. It reports whether nothing was kept before.
func (d *Dictionary) KeepDecoded(object any) (first bool) {
	if object == nil {
		return d.decoded.Swap(nil) == nil
	}
	return d.decoded.Swap(&decoded{object: object}) == nil
}

// patchSum is the checksum of the body of a patch of the template: it is another one if the template is.
func (d *Dictionary) patchSum(body []byte) uint32 { return crc32.Update(d.sum, castagnoli, body) }

// newDictionary makes a dictionary of these samples, of which it keeps no reference. It returns nil if they are
// too short or too long, or if start does not leave the eight bytes behind it that s2 reads at once.
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

// s2 returns a dictionary of s2 that shares the samples. It gets its tables when it first encodes.
func (d *Dictionary) s2() *s2.Dict { return s2.MakeDictManual(d.samples, d.start) }

// Size returns the memory that the dictionary takes, in bytes. What a template is decoded to is not counted.
func (d *Dictionary) Size() int { return allocated(cap(d.samples)) + decoderBytes }

// AppendTo appends the dictionary to b in the form that ParseDictionary reads.
func (d *Dictionary) AppendTo(b []byte) []byte {
	return append(binary.LittleEndian.AppendUint16(b, d.start), d.samples...)
}

// ParseDictionary reads what AppendTo wrote. It keeps no reference to data. Any bytes of a possible length are a
// dictionary; with one that an object was not packed with, opening it is an error.
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
