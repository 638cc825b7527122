package serve

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// upload is the body of a request that is sent on while it comes. An API server may answer before it has read the body,
// and the transport then closes it; the client may not have sent the rest, and never send it.
//
// So a goroutine of its own reads the client's connection, and neither Close nor the answer waits for it. To break off
// its read is left to end, since with a read of an HTTP/1.1 connection that fails, net/http ends the request's context,
// and thereby the answer that is being copied.
type upload struct {
	*io.PipeReader
	connection *http.ResponseController
	http1      bool
	complete   atomic.Bool   // everything has been read
	ended      chan struct{} // closed when the goroutine has ended
}

// startUpload returns the body of a request. end has to be called before its handler returns.
func startUpload(w http.ResponseWriter, r *http.Request) *upload {
	out, in := io.Pipe()
	u := &upload{
		PipeReader: out, connection: http.NewResponseController(w), http1: r.ProtoMajor == 1,
		ended: make(chan struct{}),
	}
	_ = u.connection.EnableFullDuplex() // otherwise the answer waits for the body; only HTTP/1.1 needs it
	go func() {                         // end waits for it
		defer close(u.ended)
		_, err := io.Copy(in, r.Body)
		if err == io.ErrClosedPipe { // nobody wants the rest, but a client that sends it has to get its answer
			_, err = io.Copy(io.Discard, r.Body)
		}
		u.complete.Store(err == nil)
		in.CloseWithError(err)
	}()
	return u
}

// answered sees the header of the answer before the client does. After a body that has not been read, an HTTP/1.1
// connection cannot be used again: the rest of the body would be taken for the next request. u may be nil.
func (u *upload) answered(header http.Header) {
	if u != nil && u.http1 && !u.complete.Load() {
		header.Set("Connection", "close")
	}
}

// lingering is how long the rest of a body is read after the answer. If a connection were closed while its client still
// sends, the client could lose the answer.
const lingering = 500 * time.Millisecond

// end is called after the answer. What the client sends later is not read.
func (u *upload) end() {
	u.PipeReader.Close()
	if u.complete.Load() {
		return // net/http already waits for the next request
	}
	deadline := time.Now()
	if u.http1 {
		deadline = deadline.Add(lingering)
	}
	if u.connection.SetReadDeadline(deadline) == nil { // all connections of a server have deadlines
		<-u.ended
	}
}
