package source

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
)

// acceptGzip asks for a compressed answer. net/http would ask for it too and unpack it, but a watch needs more: where
// each event is a gzip member of its own, net/http's reader holds the last event back until the next member begins.
func acceptGzip(request *http.Request) { request.Header.Set("Accept-Encoding", "gzip") }

// unpack replaces the body of a compressed answer.
func unpack(response *http.Response) {
	if response.Header.Get("Content-Encoding") == "gzip" {
		response.Body = &gzipBody{ReadCloser: response.Body, in: bufio.NewReader(response.Body)}
	}
}

// gzipBody unpacks a body of any number of gzip members. Each is handed out in full as soon as it has arrived.
type gzipBody struct {
	io.ReadCloser // the packed body, for Close
	in            *bufio.Reader
	zip           *gzip.Reader // nil between two members
	spare         *gzip.Reader // to be used for the next member
}

func (g *gzipBody) Read(p []byte) (int, error) {
	for {
		if g.zip == nil {
			if err := g.open(); err != nil {
				return 0, err
			}
		}
		n, err := g.zip.Read(p)
		if err == io.EOF {
			g.zip, g.spare, err = nil, g.zip, nil
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// open begins the next member. io.EOF means that there is none.
func (g *gzipBody) open() error {
	if _, err := g.in.Peek(1); err != nil {
		return err
	}
	if g.spare == nil {
		g.spare = new(gzip.Reader)
	}
	if err := g.spare.Reset(g.in); err != nil {
		return unexpected(err)
	}
	g.spare.Multistream(false)
	g.zip = g.spare
	return nil
}
