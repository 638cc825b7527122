package e2e

import (
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"syscall"
)

// cutter cuts the answers to lists and watches at random places, in the middle of an object as often as not.
type cutter struct {
	mu   sync.Mutex
	rand *rand.Rand
	cuts int
}

func (c *cutter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil {
			response.Body = c.cuttable(response.Body)
		}
		return response, err
	})
}

// meanLength is how many bytes an answer has on average before it is cut: enough for most lists, and much less than
// all events.
const meanLength = 200e3

func (c *cutter) cuttable(body io.ReadCloser) io.ReadCloser {
	c.mu.Lock()
	defer c.mu.Unlock()
	ends := []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET}
	return &cutBody{ReadCloser: body, cutter: c, left: int(c.rand.ExpFloat64() * meanLength), end: ends[c.rand.IntN(len(ends))]}
}

func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

// cutBody is an answer of which only the beginning arrives.
type cutBody struct {
	io.ReadCloser
	cutter *cutter
	left   int
	end    error
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.cutter.mu.Lock()
		defer b.cutter.mu.Unlock()
		b.cutter.cuts++
		return 0, b.end
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
