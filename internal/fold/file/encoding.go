package file

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

var errShort = errors.New("ends within a value")

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendMap(b []byte, m map[string]string) []byte {
	b = binary.AppendUvarint(b, uint64(len(m)))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		b = appendString(appendString(b, key), m[key])
	}
	return b
}

// values reads consecutive values. After an error, it returns zero values.
type values struct {
	rest []byte
	err  error
}

func (v *values) number() uint64 {
	n, size := binary.Uvarint(v.rest)
	if size <= 0 {
		v.rest, v.err = nil, errShort
		return 0
	}
	v.rest = v.rest[size:]
	return n
}

// bytes returns a part of the input.
func (v *values) bytes() []byte {
	n := v.number()
	if n > uint64(len(v.rest)) {
		v.rest, v.err = nil, errShort
		return nil
	}
	b := v.rest[:n]
	v.rest = v.rest[n:]
	return b
}

func (v *values) string() string { return string(v.bytes()) }

func (v *values) stringMap() map[string]string {
	n := v.number()
	out := make(map[string]string)
	for range n {
		key, value := v.string(), v.string()
		if v.err != nil {
			return nil
		}
		out[key] = value
	}
	return out
}

// end returns an error unless everything was read without one.
func (v *values) end() error {
	if v.err == nil && len(v.rest) > 0 {
		return errors.New("has more than it should")
	}
	return v.err
}
