package serve

import (
	"bufio"
	"io"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// gzipFrom is the size above which an API server compresses, and gzipLevel how well.
const (
	gzipFrom  = 128 << 10
	gzipLevel = 1
)

// compressors are kept because each has large tables.
var compressors = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzipLevel) // cannot fail for a constant level
	return z
}}

// write sends a body. The header is sent with the first bytes, so that an error before them can be answered otherwise.
func (x *exchange) write(body func(io.Writer) error) error {
	out := bufio.NewWriterSize(&starting{x: x}, 64<<10)
	c := &compressing{x: x, out: out, decided: !acceptsGzip(x.r.Header.Get("Accept-Encoding"))}
	defer c.release()
	err := body(c)
	if err == nil {
		err = c.close()
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil && !x.started {
		x.w.Header().Del("Content-Encoding")
		x.w.Header().Del("Vary")
	}
	return err
}

// compressing compresses a body if it turns out to be large. Until that is known, it waits.
type compressing struct {
	x       *exchange
	out     io.Writer
	waiting []byte
	decided bool
	z       *gzip.Writer // nil as long as nothing is compressed
}

func (c *compressing) Write(p []byte) (int, error) {
	switch {
	case c.z != nil:
		return c.z.Write(p)
	case c.decided:
		return c.out.Write(p)
	case len(c.waiting)+len(p) <= gzipFrom:
		c.waiting = append(c.waiting, p...)
		return len(p), nil
	}
	c.decided = true
	c.x.w.Header().Set("Content-Encoding", "gzip")
	c.x.w.Header().Set("Vary", "Accept-Encoding")
	c.z = compressors.Get().(*gzip.Writer)
	c.z.Reset(c.out)
	if _, err := c.z.Write(c.waiting); err != nil {
		return 0, err
	}
	c.waiting = nil
	return c.z.Write(p)
}

// close writes what is left.
func (c *compressing) close() error {
	if c.z != nil {
		return c.z.Close()
	}
	_, err := c.out.Write(c.waiting)
	return err
}

func (c *compressing) release() {
	if c.z != nil {
		c.z.Reset(io.Discard) // in the pool it must not keep the connection
		compressors.Put(c.z)
	}
}

// acceptsGzip reports whether a client accepts gzip without a weight. Like an API server, the replica does not compress
// for any other.
func acceptsGzip(header string) bool {
	for encoding := range strings.SplitSeq(header, ",") {
		if strings.TrimSpace(encoding) == "gzip" {
			return true
		}
	}
	return false
}

// starting starts the response with the first bytes. A client that does not read is cut.
type starting struct{ x *exchange }

func (s *starting) Write(p []byte) (int, error) {
	if !s.x.started {
		s.x.start(false)
	}
	s.x.extendDeadline()
	return s.x.w.Write(p)
}
