package fold

import (
	"encoding/binary"
	"errors"
	"fmt"

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

// Dictionary is what packed objects of one collection have in common. It is immutable; any goroutine may use it.
type Dictionary struct {
	samples []byte   // with room behind them, so that s2 need not copy them
	start   uint16   // where in samples an object begins: the first guess of s2
	decoder *s2.Dict // never used for encoding, so that it has no tables
}

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

// Size returns the memory that the dictionary takes, in bytes.
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
	d := newDictionary(data[2:], start)
	if d == nil {
		return nil, fmt.Errorf("a dictionary of %d bytes that begins at %d", len(data)-2, start)
	}
	return d, nil
}
