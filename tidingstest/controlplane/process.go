package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// logTailSize is the number of bytes of the log in an error.
const logTailSize = 4 << 10

// process is one run of the control plane binary.
type process struct {
	cmd *exec.Cmd
	// stdin is never written to. The program exits when it is closed, which the system does if this process
	// dies.
	stdin io.Closer
	ready *firstLine

	done chan struct{} // closed when the process has exited
	err  error         // how it ended; set before done is closed
}

// startProcess starts the binary and appends its log to logFile.
func startProcess(binary string, args []string, logFile string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	// The child has a descriptor of its own.
	defer func() { _ = log.Close() }()
	p := &process{cmd: exec.Command(binary, args...), ready: newFirstLine(), done: make(chan struct{})}
	p.cmd.Stdout = p.ready
	p.cmd.Stderr = log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// waitReady waits for the line that the program prints when it is ready.
func (p *process) waitReady(ctx context.Context) error {
	select {
	case <-p.ready.seen:
		return nil
	case <-p.done:
		return p.exit()
	case <-ctx.Done():
		return fmt.Errorf("not ready in time: %w", context.Cause(ctx))
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// exit returns how the process ended. It must have ended.
func (p *process) exit() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

// stop asks the process to exit, and waits. It kills the process if ctx ends first.
func (p *process) stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		// Not every system has such a signal; closing standard input has the same effect.
		_ = p.stdin.Close()
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		p.kill()
		return fmt.Errorf("killed: %w", context.Cause(ctx))
	}
}

// kill ends the process at once, and waits until it has exited.
func (p *process) kill() {
	// The only possible error is that it has already exited.
	_ = p.cmd.Process.Kill()
	<-p.done
}

// mintUser has the program write a user's kubeconfig.
func mintUser(binary, dataDir, name string, groups []string) ([]byte, error) {
	args := []string{"user", "--data-dir", dataDir}
	for _, group := range groups {
		args = append(args, "--group", group)
	}
	return output(exec.Command(binary, append(args, "--", name)...))
}

// output runs a command and returns its output. Errors include its standard error.
func output(cmd *exec.Cmd) ([]byte, error) {
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		return out, fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}

// firstLine is a writer that closes seen when a whole line has been written. It discards what is written.
type firstLine struct {
	seen chan struct{}
	once sync.Once
}

func newFirstLine() *firstLine { return &firstLine{seen: make(chan struct{})} }

func (l *firstLine) Write(p []byte) (int, error) {
	if bytes.IndexByte(p, '\n') >= 0 {
		l.once.Do(func() { close(l.seen) })
	}
	return len(p), nil
}

// fileTail returns the last whole lines of a file, at most size bytes.
func fileTail(path string, size int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	start := max(0, end-size)
	tail, err := io.ReadAll(io.NewSectionReader(f, start, end-start))
	if err != nil {
		return "", err
	}
	if start > 0 {
		_, rest, _ := bytes.Cut(tail, []byte("\n"))
		tail = rest
	}
	return strings.TrimSpace(string(tail)), nil
}
