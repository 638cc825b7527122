package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
)

// child is a child process. Its starter should defer kill, which ends it in any case.
type child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has exited
	err  error         // how it ended; set before done is closed

	mu      sync.Mutex
	lines   []string      // everything it has printed
	changed chan struct{} // closed and replaced on every line
}

// startChild starts a program. show is called with whole lines of its output as they arrive, and returns the lines to
// print; nil prints nothing.
func startChild(out *printer, name string, show func(lines []string) []string, program string, args ...string) (*child, error) {
	c := &child{name: name, cmd: exec.Command(program, args...), done: make(chan struct{}), changed: make(chan struct{})}
	take := func(lines []string) {
		if shown := show(lines); len(shown) > 0 {
			out.quote(name, shown)
		}
		c.add(lines)
	}
	c.cmd.Stdout, c.cmd.Stderr = &lineWriter{take: take}, &lineWriter{take: take}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() { // ends with the process, for which stop and kill wait
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

func (c *child) add(lines []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, lines...)
	close(c.changed)
	c.changed = make(chan struct{})
}

// await returns when n lines match the pattern.
func (c *child) await(ctx context.Context, n int, pattern string) error {
	want, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	for {
		found, news := c.count(want)
		if found >= n {
			return nil
		}
		select {
		case <-news:
		case <-c.done:
			return fmt.Errorf("%s ended before it printed %q: %w\n%s", c.name, pattern, c.exit(), c.last())
		case <-ctx.Done():
			return fmt.Errorf("%s has printed %d lines like %q, not %d: %w\n%s", c.name, found, pattern, n, ctx.Err(), c.last())
		}
	}
}

func (c *child) count(want *regexp.Regexp) (found int, news <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.lines {
		if want.MatchString(line) {
			found++
		}
	}
	return found, c.changed
}

// last returns the last lines that the program printed.
func (c *child) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines[max(0, len(c.lines)-10):], "\n")
}

// exit returns how the program ended. It must have ended.
func (c *child) exit() error {
	if c.err == nil {
		return errors.New("exit status 0")
	}
	return c.err
}

// stop asks the program to exit and waits for it. An unclean exit is an error.
func (c *child) stop(ctx context.Context) error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.kill() // it has already exited, or the system has no such signal
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		c.kill()
		return fmt.Errorf("%s: killed, because it did not end: %w", c.name, ctx.Err())
	}
	if c.err != nil {
		return fmt.Errorf("%s: %w\n%s", c.name, c.err, c.last())
	}
	return nil
}

// kill ends the program at once and waits until it has exited. It may have exited before.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // fails only if it has already exited
	<-c.done
}

// lineWriter passes on whole lines; lines written together are passed in one call.
type lineWriter struct {
	take    func(lines []string)
	partial []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.partial = append(w.partial, p...)
	end := bytes.LastIndexByte(w.partial, '\n')
	if end < 0 {
		return len(p), nil
	}
	lines := strings.Split(string(w.partial[:end]), "\n")
	w.partial = append(w.partial[:0], w.partial[end+1:]...)
	w.take(lines)
	return len(p), nil
}
