package file

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"iter"

	"github.com/tidings/tidings/internal/fold"
)

// Reader reads one file. Only one goroutine may use it.
type Reader struct {
	in           *bufio.Reader
	framing      *framing
	header       Header
	dictionaries []*fold.Dictionary
	records      uint64
	buf          bytes.Buffer
	size         int64 // of the file, 0 if unknown
}

// NewReader reads the header of a file.
func NewReader(r io.Reader, opts Options) (*Reader, error) {
	out := &Reader{in: bufio.NewReaderSize(r, recordsPayload)}
	prologue := make([]byte, prologueSize)
	if n, err := io.ReadFull(out.in, prologue); err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("%w: it has %d bytes, fewer than any file", ErrBroken, n)
	} else if err != nil {
		return nil, err
	}
	if err := checkPrologue(prologue, len(opts.Key) > 0); err != nil {
		return nil, err
	}
	var err error
	if out.framing, err = newFraming(prologue, opts.Key); err != nil {
		return nil, err
	}
	return out, out.readHeader()
}

func checkPrologue(b []byte, haveKey bool) error {
	if string(b[:len(magic)]) != magic {
		return fmt.Errorf("%w: it does not begin with %s", ErrBroken, magic)
	}
	b = b[len(magic):]
	if version := binary.LittleEndian.Uint16(b); version != formatVersion {
		return fmt.Errorf("%w: it is %d, this program reads %d", ErrVersion, version, formatVersion)
	}
	switch flags := binary.LittleEndian.Uint16(b[2:]); {
	case flags&^flagEncrypted != 0:
		return fmt.Errorf("%w: it has unknown flags %#x", ErrBroken, flags)
	case flags == 0 && haveKey:
		return fmt.Errorf("%w: it is not encrypted, although there is a key", ErrKey)
	case flags != 0 && !haveKey:
		return fmt.Errorf("%w: it is encrypted, and there is no key", ErrKey)
	}
	return nil
}

func (r *Reader) readHeader() error {
	kind, payload, err := r.framing.read(r.in, &r.buf)
	if err != nil {
		return err
	}
	if kind != kindHeader {
		return fmt.Errorf("%w: its first frame is of kind %d, not a header", ErrBroken, kind)
	}
	if r.header, err = parseHeader(payload); err != nil {
		return fmt.Errorf("%w: its header %w", ErrBroken, err)
	}
	return nil
}

// Header returns the header of the file.
func (r *Reader) Header() Header { return r.header }

// Share returns how much of the file has been read, from 0 to 1. It is 1 if the file's size is not known.
func (r *Reader) Share() float64 {
	return float64(r.framing.position) / float64(max(r.size, r.framing.position))
}

// Records iterates over the records, once. If it ends without an error, these were all; an error comes as the last
// pair, without a record.
func (r *Reader) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if err := r.each(func(record Record) bool { return yield(record, nil) }); err != nil {
			yield(Record{}, err)
		}
	}
}

// each calls yield with each record until it returns false. It returns an error if the file is broken.
func (r *Reader) each(yield func(Record) bool) error {
	for {
		kind, payload, err := r.framing.read(r.in, &r.buf)
		if err != nil {
			return err
		}
		switch kind {
		case kindDictionary:
			err = r.addDictionary(payload)
		case kindRecords:
			var more bool
			if more, err = r.eachOf(payload, yield); err == nil && !more {
				return nil
			}
		case kindEnd:
			return r.end(payload)
		default:
			err = fmt.Errorf("is of unknown kind %d", kind)
		}
		if err != nil {
			return fmt.Errorf("%w: frame %d %w", ErrBroken, r.framing.number-1, err)
		}
	}
}

func (r *Reader) addDictionary(payload []byte) error {
	d, err := fold.ParseDictionary(payload)
	if err != nil {
		return fmt.Errorf("has %w", err)
	}
	r.dictionaries = append(r.dictionaries, d)
	return nil
}

// eachOf calls yield with each record of a frame, and reports whether to continue.
func (r *Reader) eachOf(payload []byte, yield func(Record) bool) (bool, error) {
	v := values{rest: payload}
	for len(v.rest) > 0 {
		record, err := v.record(r.dictionaries)
		if err != nil {
			return false, err
		}
		r.records++
		if !yield(record) {
			return false, nil
		}
	}
	return true, nil
}

// end checks that everything was there and that nothing follows.
func (r *Reader) end(payload []byte) error {
	v := values{rest: payload}
	records, dictionaries := v.number(), v.number()
	if err := v.end(); err != nil {
		return fmt.Errorf("%w: its last frame %w", ErrBroken, err)
	}
	if records != r.records || dictionaries != uint64(len(r.dictionaries)) {
		return fmt.Errorf("%w: it has %d records and %d dictionaries, not the %d and %d that its end tells of",
			ErrBroken, r.records, len(r.dictionaries), records, dictionaries)
	}
	if _, err := r.in.ReadByte(); err != io.EOF {
		if err == nil {
			err = fmt.Errorf("%w: there is more behind its end", ErrBroken)
		}
		return err
	}
	return nil
}
