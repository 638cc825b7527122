package json

import (
	"crypto/rand"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// sum names a piece of text. Two different pieces never have the same sum in practice, see hasher.
type sum struct{ a, b uint64 }

// hasher is a pair of independent polynomial hashes modulo 2⁶¹-1 (Carter and Wegman, 1979), each with a random
// secret point. Two different texts of n bytes get the same sum with a probability of at most (n/7+2)²/2¹²², which
// is 2⁻⁸⁷ for a mebibyte, whoever chose them: a sum never leaves the process, so nobody can learn the points.
// That is why a sum can stand for the text without comparing it.
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

// sum hashes text. The salt tells apart equal texts that mean different things; it is below 2²⁰.
func (h hasher) sum(text []byte, salt uint64) sum {
	first := uint64(len(text))&(1<<40-1) | salt<<40
	a, b := times(first, h.a), times(first, h.b)
	for ; len(text) >= 8; text = text[7:] {
		word := binary.LittleEndian.Uint64(text) & (1<<56 - 1)
		a, b = times(a+word, h.a), times(b+word, h.b)
	}
	// At most seven bytes are left; the length is hashed, so padding them loses nothing.
	var rest uint64
	for i := len(text) - 1; i >= 0; i-- {
		rest = rest<<8 | uint64(text[i])
	}
	return sum{times(a+rest, h.a), times(b+rest, h.b)}
}

// times multiplies modulo 2⁶¹-1. Both factors are below 2⁶², and so is the result, which need not be the smallest
// one: equal texts take equal ways.
func times(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	s := lo&prime + (hi<<3 | lo>>61)
	return s&prime + s>>61
}

// class puts text into a class, equal texts into the same. It is much cheaper than a sum, but must look at all of the text
// too: times and addresses differ in a few bytes amid a long one.
func (h hasher) class(text []byte) uint64 { return maphash.Bytes(h.seed, text) }
