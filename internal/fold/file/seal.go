package file

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

const (
	// MinKey is the minimum length of a key in bytes. They must be random.
	MinKey       = 32
	sealOverhead = 16
)

// sealer encrypts and decrypts the frames of one file.
type sealer struct {
	aead cipher.AEAD
	buf  []byte // for the frame sealed or opened last
}

// newSealer derives the key of a file from the caller's and the prologue, which contains the salt.
func newSealer(key, prologue []byte) (*sealer, error) {
	if len(key) < MinKey {
		return nil, fmt.Errorf("%w: it has %d bytes, fewer than %d", ErrKey, len(key), MinKey)
	}
	own, err := hkdf.Key(sha256.New, key, prologue, "tidings folded objects", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(own)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	return &sealer{aead: aead}, err
}

// seal encrypts a payload. The result is valid until the next call.
func (s *sealer) seal(kind byte, number uint64, payload []byte) []byte {
	s.buf = s.aead.Seal(s.buf[:0], s.nonce(number), payload, []byte{kind})
	return s.buf
}

// open decrypts a payload. The result is valid until the next call.
func (s *sealer) open(kind byte, number uint64, payload []byte) ([]byte, error) {
	var err error
	s.buf, err = s.aead.Open(s.buf[:0], s.nonce(number), payload, []byte{kind})
	return s.buf, err
}

// nonce is unique per frame of the file; the key is unique per file.
func (s *sealer) nonce(number uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 4, 12), number)
}
