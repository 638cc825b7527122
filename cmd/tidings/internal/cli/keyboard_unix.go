//go:build unix

package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/charmbracelet/x/termios"
	"github.com/muesli/cancelreader"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Keyboard reads single keys from a terminal. The terminal still interrupts and suspends the program with ctrl-C and
// ctrl-Z, and moves to a new line as before; while it is suspended, and after Close, it is as it was.
type Keyboard struct {
	keys    chan string
	fd      int
	before  *term.State
	reader  cancelreader.CancelReader
	signals chan os.Signal
	awake   chan struct{} // has an element when the program goes on after it was suspended
	closed  chan struct{}
	once    sync.Once
	running sync.WaitGroup
	stop    func() bool

	mu   sync.Mutex
	keep bool // the terminal must stay as it was
}

// OpenKeyboard reads keys from stdin until Close, or until ctx ends. It returns ErrNoKeyboard if that is no terminal or
// another program's at the moment.
func OpenKeyboard(ctx context.Context, stdin io.Reader) (*Keyboard, error) {
	file, ok := stdin.(*os.File)
	if !ok || !IsTerminal(file) || !inForeground(int(file.Fd())) {
		return nil, ErrNoKeyboard
	}
	before, err := term.GetState(int(file.Fd()))
	if err != nil {
		return nil, err
	}
	reader, err := cancelreader.NewReader(file)
	if err != nil {
		return nil, err
	}
	k := &Keyboard{
		keys: make(chan string), fd: int(file.Fd()), before: before, reader: reader, signals: make(chan os.Signal, 8),
		awake: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	signal.Ignore(syscall.SIGTTIN) // otherwise a key for another program in the foreground stops this one
	signal.Notify(k.signals, syscall.SIGTSTP, syscall.SIGCONT)
	k.single()
	k.running.Go(k.read)
	k.running.Go(k.suspend)
	k.stop = context.AfterFunc(ctx, k.restore) // a second signal ends the program at once
	return k, nil
}

// inForeground reports whether the terminal gives its keys to this program.
func inForeground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// Keys returns the channel of the keys: characters, and the names of others.
func (k *Keyboard) Keys() <-chan string { return k.keys }

// Close stops reading, and makes the terminal what it was.
func (k *Keyboard) Close() {
	k.once.Do(func() {
		k.stop()
		close(k.closed)
		k.reader.Cancel()
		signal.Stop(k.signals)
		k.running.Wait()
		_ = k.reader.Close()
		k.restore()
		signal.Reset(syscall.SIGTTIN)
	})
}

// restore makes the terminal what it was, for good.
func (k *Keyboard) restore() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keep = true
	if inForeground(k.fd) {
		_ = term.Restore(k.fd, k.before) // if that fails, the terminal is gone
	}
}

// single makes the terminal pass on every key at once, and not show it.
func (k *Keyboard) single() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, err := termios.GetTermios(k.fd)
	if err != nil || k.keep || !inForeground(k.fd) {
		return
	}
	flags := map[termios.L]bool{termios.ICANON: false, termios.ECHO: false}
	// without it, keys need enter
	_ = termios.SetTermios(k.fd, uint32(now.Ispeed), uint32(now.Ospeed), nil, nil, nil, nil, flags)
}

// suspend gives the terminal back while the program is suspended.
func (k *Keyboard) suspend() {
	for {
		select {
		case s := <-k.signals:
			if s == syscall.SIGTSTP {
				_ = term.Restore(k.fd, k.before)
				signal.Reset(syscall.SIGTSTP)
				_ = unix.Kill(unix.Getpid(), syscall.SIGTSTP)
				continue
			}
			signal.Notify(k.signals, syscall.SIGTSTP)
			k.single()
			select {
			case k.awake <- struct{}{}:
			default:
			}
		case <-k.closed:
			return
		}
	}
}

// read passes on keys.
func (k *Keyboard) read() {
	var rest []byte
	buffer := make([]byte, 1024)
	for {
		n, err := k.reader.Read(buffer)
		switch {
		case errors.Is(err, syscall.EIO): // the key was for a program in the foreground
			select {
			case <-k.awake:
				continue
			case <-k.closed:
				return
			}
		case err != nil:
			return
		}
		var keys []string
		keys, rest = keysOf(append(rest, buffer[:n]...))
		for _, key := range keys {
			select {
			case k.keys <- key:
			case <-k.closed:
				return
			}
		}
	}
}
