package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/bench/internal/corpus"
)

// Replay is a transport that answers watches of one collection: with the initial events, and then with a bookmark each
// minute, until the time that the client has asked for is over, as API servers do. There is no network, so that it can
// be used in a synctest bubble.
type Replay struct {
	path     string
	initial  []byte
	bookmark []byte
}

// NewReplay returns a Replay of a number of objects of the corpus. The function allocate returns memory for the events.
func NewReplay(name corpus.Name, objects int, allocate func(size int) ([]byte, error)) (*Replay, error) {
	content, err := newContent(Config{Encoding: Protobuf, Corpus: name, Objects: objects})
	if err != nil {
		return nil, err
	}
	r := &Replay{path: name.Kind().Path(metav1.NamespaceAll)}
	if r.bookmark, err = content.bookmark(firstVersion); err != nil {
		return nil, err
	}
	size := 0
	for frame := range content.initial[metav1.NamespaceAll] {
		size += len(frame)
	}
	if r.initial, err = allocate(size); err != nil {
		return nil, err
	}
	used := 0
	for frame := range content.initial[metav1.NamespaceAll] {
		used += copy(r.initial[used:], frame)
	}
	return r, nil
}

// RoundTrip implements http.RoundTripper. What is not a watch of the collection is not found.
func (r *Replay) RoundTrip(request *http.Request) (*http.Response, error) {
	answer := &http.Response{
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, StatusCode: http.StatusNotFound, Header: http.Header{},
		Body: http.NoBody, Request: request,
	}
	query := request.URL.Query()
	if watch, _ := strconv.ParseBool(query.Get("watch")); request.URL.Path != r.path || !watch {
		return answer, nil
	}
	seconds, err := strconv.Atoi(query.Get("timeoutSeconds"))
	if err != nil {
		return nil, fmt.Errorf("replay: a watch without an end: %w", err)
	}
	answer.StatusCode = http.StatusOK
	answer.Header.Set("Content-Type", Protobuf.ContentType())
	body := &replayed{
		ctx: request.Context(), bookmark: r.bookmark, closed: make(chan struct{}),
		ticker: time.NewTicker(time.Minute), end: time.NewTimer(time.Duration(seconds) * time.Second),
	}
	if query.Get("sendInitialEvents") == "true" {
		body.left = r.initial
	}
	answer.Body = body
	return answer, nil
}

// replayed is the body of a watch.
type replayed struct {
	ctx      context.Context
	left     []byte // to send now
	bookmark []byte
	ticker   *time.Ticker
	end      *time.Timer
	once     sync.Once
	closed   chan struct{}
}

func (b *replayed) Read(p []byte) (int, error) {
	for len(b.left) == 0 {
		select {
		case <-b.ticker.C:
			b.left = b.bookmark
		case <-b.end.C:
			return 0, io.EOF
		case <-b.closed:
			return 0, net.ErrClosed
		case <-b.ctx.Done():
			return 0, context.Cause(b.ctx)
		}
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}

func (b *replayed) Close() error {
	b.once.Do(func() {
		b.ticker.Stop()
		b.end.Stop()
		close(b.closed)
	})
	return nil
}
