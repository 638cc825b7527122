package tidingstest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tidings/tidings/internal/protocol"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// dripBytes is the number of bytes per write while a response drips.
const dripBytes = 16

// body writes the body of one response, subject to the request's fault.
type body struct {
	w       http.ResponseWriter
	ctx     context.Context
	ended   <-chan struct{} // closed when the server stops
	gzip    *gzip.Writer    // nil without compression
	started bool
	drip    time.Duration
	left    int // bytes until the cut, if cut is set
	cut     bool
}

func newBody(w http.ResponseWriter, r *http.Request, fault Fault, ended <-chan struct{}) *body {
	b := &body{w: w, ctx: r.Context(), ended: ended, drip: fault.Drip, left: fault.CutAfterBytes, cut: fault.CutAfterBytes > 0}
	if fault.Gzip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		b.gzip = gzip.NewWriter(writerFunc(b.writePlain))
	}
	return b
}

// start writes the header.
func (b *body) start(code int, contentType string) error {
	b.started = true
	b.w.Header().Set("Content-Type", contentType)
	if b.gzip != nil {
		b.w.Header().Set("Content-Encoding", "gzip")
	}
	b.w.WriteHeader(code)
	return b.flush()
}

func (b *body) flush() error { return http.NewResponseController(b.w).Flush() }

// write sends data at once. With compression, data becomes a gzip member of its own.
func (b *body) write(data []byte) error {
	if b.gzip == nil {
		if _, err := b.writePlain(data); err != nil {
			return err
		}
		return b.flush()
	}
	if _, err := b.gzip.Write(data); err != nil {
		return err
	}
	if err := b.gzip.Close(); err != nil {
		return err
	}
	b.gzip.Reset(writerFunc(b.writePlain))
	return b.flush()
}

func (b *body) writePlain(data []byte) (int, error) {
	if b.drip == 0 {
		return b.writeUntilCut(data)
	}
	written := 0
	for written < len(data) {
		if !b.pause() {
			return written, protocol.ErrCut
		}
		n, err := b.writeUntilCut(data[written:min(written+dripBytes, len(data))])
		written += n
		if err == nil {
			err = b.flush()
		}
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// pause waits until the next chunk is due. It returns false if the request or the server ends first.
func (b *body) pause() bool {
	timer := time.NewTimer(b.drip)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-b.ctx.Done():
	case <-b.ended:
	}
	return false
}

func (b *body) writeUntilCut(data []byte) (int, error) {
	if !b.cut || len(data) < b.left {
		b.left -= len(data)
		return b.w.Write(data)
	}
	n, err := b.w.Write(data[:b.left])
	if err == nil {
		err = errors.Join(protocol.ErrCut, b.flush())
	}
	b.left = 0
	return n, err
}

// writeObject responds with one object.
func (b *body) writeObject(e protocol.Encoding, code int, o runtime.Object) error {
	data, err := e.Encode(o)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if err := b.start(code, e.ContentType(false)); err != nil {
		return err
	}
	return b.write(data)
}

// writeList responds with a list.
func (b *body) writeList(e protocol.Encoding, items []runtime.Object, m metav1.ListMeta) error {
	var data bytes.Buffer
	if err := e.WriteList(&data, items, m); err != nil {
		return apierrors.NewInternalError(err)
	}
	if err := b.start(http.StatusOK, e.ContentType(false)); err != nil {
		return err
	}
	return b.write(data.Bytes())
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
