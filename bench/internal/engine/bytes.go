package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/bench/internal/server"
)

// reader is the lower bound: it reads the frames of a protobuf watch.
type reader struct {
	body    io.ReadCloser
	kept    [][]byte
	running sync.WaitGroup
}

// StartBytes starts the reader of bytes, which notifies the observer of each frame.
func StartBytes(ctx context.Context, c Config, o *Observer) (Engine, error) {
	if c.Encoding != server.Protobuf {
		return nil, fmt.Errorf("reading without decoding knows the frames of protobuf only, not of %s", c.Encoding)
	}
	client, err := c.http()
	if err != nil {
		return nil, fmt.Errorf("start reading: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, client.host+c.Corpus.Kind().Path("")+"?watch=1&sendInitialEvents=true", nil)
	if err != nil {
		return nil, fmt.Errorf("start reading: %w", err)
	}
	response, err := client.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("start reading: %w", err)
	}
	r := &reader{body: response.Body}
	r.running.Go(func() { r.read(o) })
	return r, nil
}

// httpClient sends requests to the server.
type httpClient struct {
	http *http.Client
	host string
}

func (c Config) http() (httpClient, error) {
	config := c.rest()
	client, err := rest.HTTPClientFor(config)
	return httpClient{client, config.Host}, err
}

// read returns when the body is closed.
func (r *reader) read(o *Observer) {
	in := bufio.NewReaderSize(r.body, 64<<10)
	var frame []byte
	for {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		frame = append(frame[:0], make([]byte, binary.BigEndian.Uint32(head[:]))...)
		if _, err := io.ReadFull(in, frame); err != nil {
			return
		}
		if o.Seen() < o.initial {
			r.kept = append(r.kept, bytes.Clone(frame))
		}
		o.seeBytes(frame)
	}
}

// seeBytes is like See, for an encoded object.
func (o *Observer) seeBytes(frame []byte) {
	if a := o.awaited.Load(); a != nil && bytes.Contains(frame, []byte(a.version)) {
		o.See(a.version)
		return
	}
	o.See("")
}

func (r *reader) AddHandlers(context.Context, int) error {
	return errors.New("reading without decoding has no handlers")
}

func (r *reader) Stop() error {
	err := r.body.Close()
	r.running.Wait()
	return err
}
