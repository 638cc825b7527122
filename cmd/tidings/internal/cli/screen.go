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

// Screen is the way to the standard output and the standard error. One goroutine owns both, so lines come in
// the order in which they were given, whole, and a progress line that is replaced in place never gets between them.
//
//	Out, Err, Progress ──► lines (bounded) ──► goroutine ──► stdout, stderr
//
// A reader that stalls makes Out wait, but not forever: its context ends the wait, and Close does not wait longer
// than it is told to, so a stalled pipe cannot keep the process from ending. All methods but Close may be called
// from several goroutines.
type Screen struct {
	lines  chan line
	closed chan struct{} // closed by Close: nothing more is taken
	done   chan struct{} // closed when the goroutine has written everything
	failed chan struct{} // closed when stdout cannot be written to any more; err says why
	close  sync.Once

	stdout, stderr io.Writer
	live           bool  // stderr is a terminal: the progress line can be replaced
	err            error // set before failed is closed

	// The rest belongs to the goroutine.
	pending  []byte // for stdout, not yet written
	broken   bool   // failed is closed
	progress string // the line that stands on the terminal without an end
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
	toProgress
)

// queued is how many lines wait for a slow reader before Out waits too.
const queued = 128

// NewScreen starts a screen on the two streams. Close ends it.
func NewScreen(stdout, stderr io.Writer) *Screen {
	s := &Screen{
		lines: make(chan line, queued), closed: make(chan struct{}), done: make(chan struct{}), failed: make(chan struct{}),
		stdout: stdout, stderr: stderr, live: IsTerminal(stderr),
	}
	go s.run()
	return s
}

// Out writes text, whole lines, to the standard output. It returns OutputError if that cannot be written to any more
// and the context's error if that ends first; it does not wait for the text to be written.
func (s *Screen) Out(ctx context.Context, text []byte) error {
	if err := s.OutputError(); err != nil {
		return err
	}
	return s.give(ctx, line{text, toStdout})
}

// Err writes text, whole lines, to the standard error, in order with what goes to the standard output.
func (s *Screen) Err(ctx context.Context, text []byte) error {
	return s.give(ctx, line{text, toStderr})
}

// Progress shows text, cut to one line of the terminal, in place of the progress text before; "" takes it away. It does
// nothing if the standard error is not a terminal, and drops the text when there is more important work.
func (s *Screen) Progress(text string) {
	if !s.live {
		return
	}
	select {
	case s.lines <- line{[]byte(firstRunes(Printable(text), cmp.Or(Width(s.stderr), 80)-1)), toProgress}:
	default:
	}
}

func (s *Screen) give(ctx context.Context, l line) error {
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

// Failed is closed when the standard output cannot be written to any more.
func (s *Screen) Failed() <-chan struct{} { return s.failed }

// OutputError says why the standard output cannot be written to any more: ErrOutputClosed if nobody reads it, another error if,
// say, the disk is full. It is nil as long as all goes well.
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

// ReaderGone reports whether nobody reads the standard output any more, where that shows without a write. It costs a
// system call.
func (s *Screen) ReaderGone() bool { return readerGone(s.stdout) }

// End closes the screen after a command that has returned err, and adds to that what went wrong with its output since.
func (s *Screen) End(err error, grace time.Duration) error {
	s.Close(grace)
	if failed := s.OutputError(); failed != nil && failed != ErrOutputClosed && (err == nil || !strings.Contains(err.Error(), failed.Error())) {
		return errors.Join(err, failed)
	}
	return err
}

// Close writes what was given before it and ends the screen. It waits for that at most as long as grace: a reader
// that has stalled leaves a goroutine behind, in a write that nothing can end but the process.
func (s *Screen) Close(grace time.Duration) {
	s.close.Do(func() { close(s.closed) })
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
	}
}

// run writes lines until the screen is closed and nothing is left.
func (s *Screen) run() {
	defer close(s.done)
	for {
		select {
		case l := <-s.lines:
			s.write(l)
			continue
		default:
		}
		s.flush() // nothing more is there at the moment
		select {
		case l := <-s.lines:
			s.write(l)
		case <-s.closed:
			s.drain()
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

// flushAt is how much is gathered for one write.
const flushAt = 32 << 10

func (s *Screen) write(l line) {
	switch l.kind {
	case toProgress:
		s.flush()
		s.replaceProgress(string(l.text))
	case toStderr:
		s.flush()
		s.replaceProgress("")
		_, _ = s.stderr.Write(l.text) // there is nobody left to tell
	default:
		s.pending = append(s.pending, l.text...)
		if len(s.pending) >= flushAt {
			s.flush()
		}
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

// replaceProgress puts text in place of the progress line.
func (s *Screen) replaceProgress(text string) {
	if text == s.progress {
		return
	}
	_, _ = io.WriteString(s.stderr, "\r\x1b[K"+text) // to the start of the line, and clear it
	s.progress = text
}

// ErrWriter returns a writer to the standard error, for a logger. Each Write must be whole lines.
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
