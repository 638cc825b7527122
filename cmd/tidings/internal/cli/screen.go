package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Screen writes to standard output and standard error. One goroutine owns both, so lines are
// written whole and in the order of the calls. The progress line stays below them, and is replaced
// in place.
//
//	Out, Err ──► lines (bounded) ──► goroutine ──► stdout, stderr
//	Progress ──► the last text ────────┘
//
// A stalled reader blocks Out, but only until its context ends, and Close waits no longer than its
// grace period, so a stalled pipe cannot keep the process from ending. All methods but Close may be
// called from several goroutines.
type Screen struct {
	lines  chan line
	closed chan struct{} // closed by Close: no more lines are accepted
	done   chan struct{} // closed when the goroutine has written everything
	failed chan struct{} // closed when writing to stdout has failed; err says why
	close  sync.Once

	stdout, stderr io.Writer
	live           bool          // stderr is a terminal, so the progress line can be replaced
	err            error         // set before failed is closed
	redraw         chan struct{} // has an element when there is another progress line

	mu     sync.Mutex
	wanted string // the progress line

	// The fields below belong to the goroutine.
	pending  []byte // for stdout, not yet written
	broken   bool   // failed is closed
	progress string // the progress line on the terminal, without a line end
}

// line is something to write.
type line struct {
	text []byte
	kind lineKind
}

type lineKind uint8

const (
	toStdout lineKind = iota
	toStderr
)

// queued is the number of lines that wait for a slow reader before Out blocks.
const queued = 128

// NewScreen starts a screen on the two streams. Close stops it.
func NewScreen(stdout, stderr io.Writer) *Screen {
	s := &Screen{
		lines: make(chan line, queued), closed: make(chan struct{}), done: make(chan struct{}), failed: make(chan struct{}),
		stdout: stdout, stderr: stderr, live: IsTerminal(stderr), redraw: make(chan struct{}, 1),
	}
	go s.run()
	return s
}

// Out writes whole lines to standard output. It returns OutputError if writing has failed, and the
// context's error if that ends first. It does not wait until the text has been written.
func (s *Screen) Out(ctx context.Context, text []byte) error {
	if err := s.OutputError(); err != nil {
		return err
	}
	return s.enqueue(ctx, line{text, toStdout})
}

// Err writes whole lines to standard error, in order with those for standard output.
func (s *Screen) Err(ctx context.Context, text []byte) error {
	return s.enqueue(ctx, line{text, toStderr})
}

// Progress replaces the progress lines, each cut to one line of the terminal; "" removes them. It
// does nothing if standard error is not a terminal, and never waits.
func (s *Screen) Progress(lines ...string) {
	if !s.live {
		return
	}
	width := cmp.Or(Width(s.stderr), 80) - 1
	for i, line := range lines {
		lines[i] = firstRunes(Printable(line), width)
	}
	s.mu.Lock()
	s.wanted = strings.Join(lines, "\n")
	s.mu.Unlock()
	select {
	case s.redraw <- struct{}{}:
	default:
	}
}

func (s *Screen) enqueue(ctx context.Context, l line) error {
	failed := s.failed
	if l.kind != toStdout {
		failed = nil // the other stream may still work
	}
	select {
	case <-s.closed:
		return ErrOutputClosed
	default:
	}
	select {
	case s.lines <- l:
		return nil
	case <-failed:
		return s.OutputError()
	case <-s.closed:
		return ErrOutputClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Failed returns a channel that is closed when writing to standard output has failed.
func (s *Screen) Failed() <-chan struct{} { return s.failed }

// OutputError returns the error of writing to standard output: ErrOutputClosed if its reader has
// gone, or another error, such as a full disk. It is nil as long as writing works.
func (s *Screen) OutputError() error {
	select {
	case <-s.failed:
		return outputError(s.err)
	default:
		return nil
	}
}

func outputError(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
		return ErrOutputClosed
	}
	return fmt.Errorf("cannot write the output: %w", err)
}

// ReaderGone reports whether nobody reads standard output any longer, on systems where that can be
// detected without a write. It costs a system call.
func (s *Screen) ReaderGone() bool { return readerGone(s.stdout) }

// End closes the screen after a command that returned err, and adds to err what has gone wrong with its output since.
func (s *Screen) End(err error, grace time.Duration) error {
	s.Close(grace)
	if failed := s.OutputError(); failed != nil && failed != ErrOutputClosed && (err == nil || !strings.Contains(err.Error(), failed.Error())) {
		return errors.Join(err, failed)
	}
	return err
}

// Close writes what was passed in before and stops the screen. It waits at most grace: a stalled
// reader leaves the goroutine behind, in a write that only the end of the process can interrupt.
func (s *Screen) Close(grace time.Duration) {
	s.close.Do(func() { close(s.closed) })
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
	}
}

// run writes lines until the screen is closed and no lines are left.
func (s *Screen) run() {
	defer close(s.done)
	for {
		select {
		case l := <-s.lines:
			s.write(l)
			continue
		default:
		}
		s.flush() // no more lines at the moment
		s.showProgress()
		select {
		case l := <-s.lines:
			s.write(l)
			s.collect()
		case <-s.redraw:
		case <-s.closed:
			s.drain()
			return
		}
	}
}

// frame is how long lines are collected if there is a progress line, which has to make room for them.
const frame = 15 * time.Millisecond

// collect collects the lines of one frame.
func (s *Screen) collect() {
	if s.progress == "" {
		return
	}
	timer := time.NewTimer(frame)
	defer timer.Stop()
	for {
		select {
		case l := <-s.lines:
			s.write(l)
		case <-timer.C:
			return
		case <-s.closed:
			return
		}
	}
}

func (s *Screen) drain() {
	for {
		select {
		case l := <-s.lines:
			s.write(l)
		default:
			s.flush()
			s.replaceProgress("")
			return
		}
	}
}

// flushAt is the number of bytes to collect for one write.
const flushAt = 32 << 10

func (s *Screen) write(l line) {
	if l.kind == toStderr {
		s.flush()
		s.replaceProgress("")
		_, _ = s.stderr.Write(l.text) // there is nobody to report an error to
		return
	}
	s.pending = append(s.pending, l.text...)
	if len(s.pending) >= flushAt {
		s.flush()
		s.showProgress()
	}
}

func (s *Screen) flush() {
	if len(s.pending) == 0 {
		return
	}
	s.replaceProgress("")
	if !s.broken {
		if _, err := s.stdout.Write(s.pending); err != nil {
			s.broken, s.err = true, err
			close(s.failed)
		}
	}
	if s.pending = s.pending[:0]; cap(s.pending) > 4*flushAt {
		s.pending = nil
	}
}

// showProgress shows the progress line that is wanted now.
func (s *Screen) showProgress() {
	s.mu.Lock()
	text := s.wanted
	s.mu.Unlock()
	s.replaceProgress(text)
}

// replaceProgress replaces the progress lines with text. The cursor waits at their start, so that it is found again if
// the terminal becomes narrower and breaks them.
func (s *Screen) replaceProgress(text string) {
	if text == s.progress {
		return
	}
	s.progress = text
	if text != "" {
		up := strings.Count(text, "\n")
		text = strings.ReplaceAll(text, "\n", "\r\n") + "\r"
		if up > 0 {
			text += fmt.Sprintf("\x1b[%dA", up)
		}
	}
	_, _ = io.WriteString(s.stderr, "\r\x1b[J"+text) // move to the start of the line, and clear what is below
}

// ErrWriter returns a writer to standard error, for a logger. Each Write must consist of whole lines.
func (s *Screen) ErrWriter(ctx context.Context) io.Writer { return errWriter{s, ctx} }

type errWriter struct {
	screen *Screen
	ctx    context.Context
}

func (w errWriter) Write(p []byte) (int, error) {
	if err := w.screen.Err(w.ctx, append([]byte(nil), p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}
