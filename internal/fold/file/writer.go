package file

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/tidings/tidings/internal/fold"
)

// Options configure writing and reading.
type Options struct {
	// Key encrypts the file; empty means no encryption. It must have at least MinKey random bytes.
	Key []byte
}

// Writer writes the records of one file. Only one goroutine may use it.
type Writer struct {
	out          *bufio.Writer
	framing      *framing
	pending      []byte                      // the records of the next frame
	dictionaries map[*fold.Dictionary]uint64 // numbers of recently written ones
	held         int                         // their memory
	written      uint64                      // number of dictionaries written
	buf          []byte
	records      uint64
	err          error // the first one
}

// NewWriter begins a file. The file is complete only after Close.
func NewWriter(w io.Writer, header Header, opts Options) (*Writer, error) {
	encoded := header.append(nil)
	if len(encoded) > maxHeader {
		return nil, fmt.Errorf("%w: a header of %d bytes, over the limit of %d", ErrTooLarge, len(encoded), maxHeader)
	}
	prologue := newPrologue(len(opts.Key) > 0)
	framing, err := newFraming(prologue, opts.Key)
	if err != nil {
		return nil, err
	}
	out := &Writer{out: bufio.NewWriterSize(w, recordsPayload), framing: framing, dictionaries: make(map[*fold.Dictionary]uint64)}
	_, out.err = out.out.Write(prologue)
	out.write(kindHeader, encoded)
	return out, out.err
}

func newPrologue(encrypted bool) []byte {
	b := binary.LittleEndian.AppendUint16([]byte(magic), formatVersion)
	flags := uint16(0)
	if encrypted {
		flags = flagEncrypted
	}
	b = binary.LittleEndian.AppendUint16(b, flags)
	b = append(b, make([]byte, saltSize)...)
	rand.Read(b[len(b)-saltSize:]) // never fails
	return b
}

// Write writes a record, preceded by its object's dictionary if the file does not have that yet. An error is final.
func (w *Writer) Write(r Record) error {
	number := w.dictionary(r.Object.Dictionary())
	w.pending = r.append(w.pending, number)
	w.records++
	if len(w.pending) >= recordsPayload {
		w.flush()
	}
	return w.err
}

// dictionary returns the number of a dictionary, and writes it to the file if needed.
func (w *Writer) dictionary(d *fold.Dictionary) uint64 {
	if d == nil {
		return 0
	}
	number, ok := w.dictionaries[d]
	if !ok {
		if w.held += d.Size(); w.held > maxHeld { // most serve neighbors only; one that is needed again is written again
			clear(w.dictionaries)
			w.held = d.Size()
		}
		w.written++
		number = w.written
		w.dictionaries[d] = number
		w.buf = d.AppendTo(w.buf[:0])
		w.write(kindDictionary, w.buf)
	}
	return number
}

// maxHeld bounds the memory of dictionaries that a writer keeps alive.
const maxHeld = 2 << 20

// Close writes the end of the file. It does not close the underlying writer.
func (w *Writer) Close() error {
	w.flush()
	end := binary.AppendUvarint(nil, w.records)
	w.write(kindEnd, binary.AppendUvarint(end, w.written))
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}

// flush writes the pending records.
func (w *Writer) flush() {
	if len(w.pending) > 0 {
		w.write(kindRecords, w.pending)
		w.pending = w.pending[:0]
	}
}

func (w *Writer) write(kind byte, payload []byte) {
	if w.err == nil {
		w.err = w.framing.write(w.out, kind, payload)
	}
}
