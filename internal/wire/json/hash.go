package json

import (
	"crypto/rand"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// sum identifies a piece of text. In practice no two different texts have the same sum; see hasher.
type sum struct{ a, b uint64 }

// hasher is a pair of independent polynomial hashes modulo 2⁶¹-1 (Carter and Wegman, 1979), each at
// a random secret point. Two different texts of n bytes get the same sum with a probability of at
// most (n/7+2)²/2¹²², which is 2⁻⁸⁷ for a mebibyte, no matter who chose them: a sum never leaves
// the process, so nobody can learn the points. That is why texts with equal sums need not be
// compared.
type hasher struct {
	a, b uint64
	seed maphash.Seed // of the classes
}

const prime = 1<<61 - 1

func newHasher() hasher {
	return hasher{a: randomPoint(), b: randomPoint(), seed: maphash.MakeSeed()}
}

func randomPoint() uint64 {
	var seed [8]byte
	rand.Read(seed[:])
	return binary.LittleEndian.Uint64(seed[:])%(prime-1) + 1
}

// sum hashes text. The salt, which is below 2²⁰, distinguishes equal texts with different meanings.
func (h hasher) sum(text []byte, salt uint64) sum {
	first := uint64(len(text))&(1<<40-1) | salt<<40
	a, b := times(first, h.a), times(first, h.b)
	for ; len(text) >= 8; text = text[7:] {
		word := binary.LittleEndian.Uint64(text) & (1<<56 - 1)
		a, b = times(a+word, h.a), times(b+word, h.b)
	}
	// At most seven bytes are left. The length is hashed, so padding is unambiguous.
	var rest uint64
	for i := len(text) - 1; i >= 0; i-- {
		rest = rest<<8 | uint64(text[i])
	}
	return sum{times(a+rest, h.a), times(b+rest, h.b)}
}

// times multiplies modulo 2⁶¹-1. Both factors are below 2⁶², and so is the result, which need not
// be fully reduced: equal texts give equal results.
func times(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	s := lo&prime + (hi<<3 | lo>>61)
	return s&prime + s>>61
}

// class assigns text to a class; equal texts get the same one. It is much cheaper than a sum, but
// must read the whole text too: times and addresses differ in a few bytes of a long text.
func (h hasher) class(text []byte) uint64 { return maphash.Bytes(h.seed, text) }
