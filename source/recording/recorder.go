package recording

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// DefaultMaxBytes is the default for Options.MaxBytes.
const DefaultMaxBytes = 1 << 30

// ErrFull is the error of a recorder that stopped because its file has reached Options.MaxBytes.
var ErrFull = errors.New("recording: the file has reached its limit; what came later is not in it")

// Options are the options of a Recorder. The zero value is ready to use.
type Options struct {
	// MaxBytes limits the size of the recording; 0 means DefaultMaxBytes. Recording stops when the limit is reached.
	MaxBytes int64
}

// Recorder writes a recording of any number of sources. Its methods may be called from any goroutine.
type Recorder struct {
	began time.Time
	limit int64

	mu          sync.Mutex // guards the fields below
	out         *bufio.Writer
	file        io.Closer // nil if the caller owns the writer
	written     int64
	collections int
	calls       int
	err         error // why recording has stopped
	closed      bool
}

// endReserve is the space in bytes reserved for the last entry.
const endReserve = 512

// Create creates a file with mode 0600 and returns a recorder that writes to it. It is an error if the file exists.
func Create(path string, opts Options) (*Recorder, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	r, err := NewRecorder(file, opts)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	r.file = file
	return r, nil
}

// NewRecorder returns a recorder that writes to w. The caller closes w after the recorder.
func NewRecorder(w io.Writer, opts Options) (*Recorder, error) {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = DefaultMaxBytes
	}
	if opts.MaxBytes < 0 {
		return nil, fmt.Errorf("recording: MaxBytes is %d; it cannot be negative", opts.MaxBytes)
	}
	r := &Recorder{began: time.Now(), limit: opts.MaxBytes, out: bufio.NewWriterSize(w, 64<<10)}
	r.write(entry{Header: &header{Format: formatName, Version: formatVersion, Began: r.began.UTC().Round(0)}})
	r.Flush()
	return r, r.Err()
}

// Flush writes buffered entries. Lists and watches flush by themselves after each request and each batch of events.
func (r *Recorder) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.out.Flush(); err != nil && r.err == nil {
		r.err = fmt.Errorf("recording: %w", err)
	}
}

// Err returns why recording has stopped: ErrFull, or the error from writing. It is nil while recording.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close completes the recording, and closes the file if Create created it. It returns the error
// that stopped the recording, if any, or the error of completing it. The sources remain usable,
// unrecorded. Close may be called again.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.err
	}
	r.closed = true
	if r.err == nil {
		r.writeLimited(entry{At: int64(time.Since(r.began)), End: "closed"}, r.limit)
	}
	if err := r.out.Flush(); err != nil && r.err == nil {
		r.err = fmt.Errorf("recording: %w", err)
	}
	if r.file != nil {
		r.err = errors.Join(r.err, r.file.Close())
	}
	return r.err
}

// write writes an entry with the current time, unless recording has ended. It reports whether it did.
func (r *Recorder) write(e entry) bool {
	e.At = int64(time.Since(r.began))
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.append(e)
}

// append is write, without setting the time. The caller holds mu.
func (r *Recorder) append(e entry) bool {
	if r.err != nil || r.closed {
		return false
	}
	if !r.writeLimited(e, r.limit-endReserve) && r.err == nil {
		r.writeLimited(entry{At: e.At, End: "full"}, r.limit)
		r.err = ErrFull
	}
	return r.err == nil
}

// writeLimited writes an entry, unless the file would exceed limit, and reports whether it did. On
// an error it sets r.err. The caller holds mu.
func (r *Recorder) writeLimited(e entry, limit int64) bool {
	text, err := line(e)
	if err != nil {
		r.err = fmt.Errorf("recording: %w", err)
		return false
	}
	if r.written+int64(len(text)) > limit {
		return false
	}
	r.written += int64(len(text))
	if _, err := r.out.Write(text); err != nil {
		r.err = fmt.Errorf("recording: %w", err)
		return false
	}
	return true
}

// addCollection writes a collection and returns its number.
func (r *Recorder) addCollection(c collection) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.collections++
	r.append(entry{At: int64(time.Since(r.began)), Collection: &c})
	return r.collections
}

// begin writes the beginning of a list or watch and returns its number.
func (r *Recorder) begin(e entry) int {
	e.At = int64(time.Since(r.began))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	e.Call = r.calls
	r.append(e)
	return r.calls
}
