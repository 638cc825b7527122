package file

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	magic         = "TIDINGSF"
	formatVersion = 2
	flagEncrypted = 1

	saltSize     = 32
	prologueSize = len(magic) + 2 + 2 + saltSize
	headSize     = 1 + 4
	checksumSize = 4

	// maxPayload is the maximum length of a payload before sealing. The largest object fits.
	maxPayload = 64 << 20
	// recordsPayload is the length at which a frame of records is written.
	recordsPayload = 64 << 10
)

// The kinds of frames.
const (
	kindHeader byte = 1 + iota
	kindDictionary
	kindRecords
	kindEnd
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// framing is the state that writing and reading of frames share: the position in the file.
type framing struct {
	base     uint32 // the checksum of the prologue
	number   uint64 // of the next frame
	position int64  // of the next frame to read
	seal     *sealer
}

func newFraming(prologue []byte, key []byte) (*framing, error) {
	f := &framing{base: crc32.Checksum(prologue, castagnoli), position: int64(len(prologue))}
	if len(key) == 0 {
		return f, nil
	}
	var err error
	f.seal, err = newSealer(key, prologue)
	return f, err
}

// checksum returns the checksum of the next frame, with this head and payload.
func (f *framing) checksum(head, payload []byte) uint32 {
	var number [8]byte
	binary.LittleEndian.PutUint64(number[:], f.number)
	sum := crc32.Update(f.base, castagnoli, number[:])
	sum = crc32.Update(sum, castagnoli, head)
	return crc32.Update(sum, castagnoli, payload)
}

// write writes a frame.
func (f *framing) write(w io.Writer, kind byte, payload []byte) error {
	if len(payload) > maxPayload {
		return fmt.Errorf("%w: %d bytes, over the limit of %d", ErrTooLarge, len(payload), maxPayload)
	}
	if f.seal != nil {
		payload = f.seal.seal(kind, f.number, payload)
	}
	head := binary.LittleEndian.AppendUint32([]byte{kind}, uint32(len(payload)))
	sum := binary.LittleEndian.AppendUint32(nil, f.checksum(head, payload))
	f.number++
	for _, part := range [][]byte{head, payload, sum} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// read reads a frame. The payload is valid until the next call with the same buffer.
func (f *framing) read(r io.Reader, buf *bytes.Buffer) (kind byte, payload []byte, err error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, f.readError(err)
	}
	length := binary.LittleEndian.Uint32(head[1:])
	if length > maxPayload+sealOverhead {
		return 0, nil, f.broken("claims to have %d bytes", length)
	}
	buf.Reset()
	if _, err := io.CopyN(buf, r, int64(length)+checksumSize); err != nil { // buf grows only as data arrives
		return 0, nil, f.readError(err)
	}
	f.position += headSize + int64(buf.Len())
	payload, sum := buf.Bytes()[:length], binary.LittleEndian.Uint32(buf.Bytes()[length:])
	if sum != f.checksum(head[:], payload) {
		return 0, nil, f.broken("has a wrong checksum")
	}
	if f.seal != nil {
		if payload, err = f.seal.open(head[0], f.number, payload); err != nil {
			return 0, nil, fmt.Errorf("%w: frame %d cannot be decrypted", ErrKey, f.number)
		}
	}
	f.number++
	return head[0], payload, nil
}

func (f *framing) broken(format string, args ...any) error {
	return fmt.Errorf("%w: frame %d %s", ErrBroken, f.number, fmt.Sprintf(format, args...))
}

func (f *framing) readError(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: it is cut off in frame %d", ErrBroken, f.number)
	}
	return err
}
