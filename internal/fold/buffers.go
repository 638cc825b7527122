package fold

import (
	"slices"
	"sync"
)

// maxPooled is the largest buffer returned to the pool: one large object must not make all buffers large.
const maxPooled = 256 << 10

// buffers holds *[]byte. The garbage collector frees unused ones.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// getBuffer returns a buffer of length size, with arbitrary content.
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

// grow returns b extended by n bytes.
func grow(b []byte, n int) []byte { return slices.Grow(b, n)[:len(b)+n] }
