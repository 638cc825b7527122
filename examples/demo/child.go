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

// child is a program that was started here. Whoever starts it defers kill, which ends it whatever happens.
type child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process is gone
	err  error         // how it ended; set before done is closed

	mu    sync.Mutex
	lines []string      // all that it has printed
	news  chan struct{} // closed and replaced with every line
}

// startChild starts a program. show is called with whole lines of its output as they come, and returns them as people
// shall see them; a nil slice hides them.
func startChild(out *narrator, name string, show func(lines []string) []string, program string, args ...string) (*child, error) {
	c := &child{name: name, cmd: exec.Command(program, args...), done: make(chan struct{}), news: make(chan struct{})}
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
	go func() { // ends with the process, which stop and kill wait for
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

func (c *child) add(lines []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, lines...)
	close(c.news)
	c.news = make(chan struct{})
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
	return found, c.news
}

// last is what the program printed last.
func (c *child) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.lines[max(0, len(c.lines)-10):], "\n")
}

// exit is how the program ended, which it has.
func (c *child) exit() error {
	if c.err == nil {
		return errors.New("exit status 0")
	}
	return c.err
}

// stop asks the program to end and waits until it has. A program that does not end cleanly is an error.
func (c *child) stop(ctx context.Context) error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.kill() // it has ended, or the system has no such signal
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

// kill ends the program at once and waits until it is gone. It may have ended before.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // fails only if it has ended
	<-c.done
}

// lineWriter hands on whole lines, those that were written together in one call.
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
