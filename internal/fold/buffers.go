package fold

import (
	"slices"
	"sync"
)

// maxPooled is the largest buffer that goes back to the pool: one large object must not make all buffers large.
const maxPooled = 256 << 10

// buffers holds *[]byte. The garbage collector empties it when they are not used.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// getBuffer returns a buffer with the length and at least the capacity of size, with anything in it.
func getBuffer(size int) *[]byte {
	buf := buffers.Get().(*[]byte)
	*buf = grow((*buf)[:0], size)
	return buf
}

func putBuffer(buf *[]byte) {
	if cap(*buf) <= maxPooled {
		buffers.Put(buf)
	}
}

// grow returns b, longer by n bytes.
func grow(b []byte, n int) []byte { return slices.Grow(b, n)[:len(b)+n] }
