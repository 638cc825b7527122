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

// DefaultMaxBytes is how large a recording gets unless Options says otherwise.
const DefaultMaxBytes = 1 << 30

// ErrFull is the error of a recorder that stopped because its file has reached Options.MaxBytes.
var ErrFull = errors.New("recording: the file has reached its limit; what came later is not in it")

// Options are those of a Recorder. The zero value is ready to use.
type Options struct {
	// MaxBytes bounds the recording; 0 means DefaultMaxBytes. What comes later is not recorded.
	MaxBytes int64
}

// Recorder writes a recording, of any number of sources. Its methods may be called from any goroutine.
type Recorder struct {
	began time.Time
	limit int64

	mu          sync.Mutex // guards what follows
	out         *bufio.Writer
	file        io.Closer // nil where the writer is the caller's
	written     int64
	collections int
	calls       int
	err         error // why nothing is recorded any more
	closed      bool
}

// endReserve is the room that is kept for the last entry.
const endReserve = 512

// Create makes a file, with mode 0600, and a recorder that writes to it. A file that is there already is an error.
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

// NewRecorder returns a recorder that writes to w, which stays the caller's to close.
func NewRecorder(w io.Writer, opts Options) (*Recorder, error) {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = DefaultMaxBytes
	}
	if opts.MaxBytes < 0 {
		return nil, fmt.Errorf("recording: MaxBytes is %d; it cannot be negative", opts.MaxBytes)
	}
	r := &Recorder{began: time.Now(), limit: opts.MaxBytes, out: bufio.NewWriterSize(w, 64<<10)}
	r.write(entry{Header: &header{Format: formatName, Version: formatVersion}})
	r.Flush()
	return r, r.Err()
}

// Flush writes what is buffered. Watches and lists that have brought something are flushed by themselves.
func (r *Recorder) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.out.Flush(); err != nil && r.err == nil {
		r.err = fmt.Errorf("recording: %w", err)
	}
}

// Err returns why nothing is recorded any more: ErrFull, or what writing failed with; nil while all goes well.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close completes the recording, and closes its file if Create made it. It returns what Err did until then. Sources can go on,
// unrecorded. It may be called again.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.err
	}
	r.closed = true
	if r.err == nil {
		r.put(entry{At: int64(time.Since(r.began)), End: "closed"}, r.limit)
	}
	if err := r.out.Flush(); err != nil && r.err == nil {
		r.err = fmt.Errorf("recording: %w", err)
	}
	if r.file != nil {
		r.err = errors.Join(r.err, r.file.Close())
	}
	return r.err
}

// write writes an entry of now, unless recording has ended. It reports whether it did.
func (r *Recorder) write(e entry) bool {
	e.At = int64(time.Since(r.began))
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.append(e)
}

// append is write with mu held.
func (r *Recorder) append(e entry) bool {
	if r.err != nil || r.closed {
		return false
	}
	if !r.put(e, r.limit-endReserve) && r.err == nil {
		r.put(entry{At: e.At, End: "full"}, r.limit)
		r.err = ErrFull
	}
	return r.err == nil
}

// put writes an entry unless the file would become larger than limit, or writing fails. mu is held.
func (r *Recorder) put(e entry, limit int64) bool {
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
