// Package latewatch has a transport whose watches are late, for tests of what programs do until their caches have
// seen something.
package latewatch

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// Wrap returns a function that wraps a transport, for rest.Config.Wrap. What a watch brings can be read after the
// delay, and not before.
func Wrap(delay time.Duration) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return transport{next, delay} }
}

type transport struct {
	next  http.RoundTripper
	delay time.Duration
}

// RoundTrip delays the body of a watch.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") != "" {
		response.Body = newBody(response.Body, t.delay)
	}
	return response, err
}

// body is a body each of whose pieces can be read some time after it has arrived.
type body struct {
	io.Closer
	pieces chan piece
	closed chan struct{}
	close  sync.Once
	left   []byte // of the last piece
}

type piece struct {
	data []byte
	err  error
	due  time.Time
}

// maxPieces is the number of pieces that can be on their way. It is more than a test sends within the delay.
const maxPieces = 10_000

func newBody(r io.ReadCloser, delay time.Duration) *body {
	b := &body{Closer: r, pieces: make(chan piece, maxPieces), closed: make(chan struct{})}
	go func() { // until the body has ended, or is closed
		for err := error(nil); err == nil; {
			buf := make([]byte, 32<<10)
			var n int
			n, err = r.Read(buf)
			if n > 0 {
				b.send(piece{data: buf[:n], due: time.Now().Add(delay)})
			}
			if err != nil {
				b.send(piece{err: err, due: time.Now().Add(delay)})
			}
		}
	}()
	return b
}

func (b *body) send(p piece) {
	select {
	case b.pieces <- p:
	case <-b.closed:
	}
}

// Read reads what is due, and waits for the next piece if nothing is.
func (b *body) Read(p []byte) (int, error) {
	for len(b.left) == 0 {
		select {
		case piece := <-b.pieces:
			select {
			case <-time.After(time.Until(piece.due)):
			case <-b.closed:
				return 0, http.ErrBodyReadAfterClose
			}
			if b.left = piece.data; piece.err != nil {
				return 0, piece.err
			}
		case <-b.closed:
			return 0, http.ErrBodyReadAfterClose
		}
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}

// Close closes the body, also while it is being read.
func (b *body) Close() error {
	b.close.Do(func() { close(b.closed) })
	return b.Closer.Close()
}
