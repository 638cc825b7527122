package source

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
)

// acceptGzip requests a compressed response. net/http would do that and decompress the body as
// well, but not in a way that suits a watch: if each event is a separate gzip member, net/http's
// reader holds back the last event until the next member begins.
func acceptGzip(request *http.Request) { request.Header.Set("Accept-Encoding", "gzip") }

// decompress makes the body of a compressed response decompress itself. Names of content codings are case-insensitive.
func decompress(response *http.Response) {
	if strings.EqualFold(response.Header.Get("Content-Encoding"), "gzip") {
		response.Body = &gzipBody{ReadCloser: response.Body, in: bufio.NewReader(response.Body)}
	}
}

// gzipBody decompresses a body of any number of gzip members. Each can be read to its end as soon as it has arrived.
type gzipBody struct {
	io.ReadCloser // the compressed body, for Close
	in            *bufio.Reader
	zip           *gzip.Reader // nil between two members
	spare         *gzip.Reader // reused for the next member
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

// open begins the next member. It returns io.EOF if there is none.
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
