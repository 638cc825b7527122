package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// progressEvery is the interval at which a build reports progress.
	progressEvery = 10 * time.Second
	// keepLines is the number of lines of the go command's messages in an error.
	keepLines = 20
)

// buildProgress parses what "go build -v" writes to standard error: modules that it downloads,
// packages that it compiles, and other messages.
type buildProgress struct {
	mu         sync.Mutex
	packages   int    // in the program, 0 while unknown; those in the build cache are not compiled again
	line       []byte // the current line, as far as it has been read
	downloaded int
	compiled   int
	latest     string // being downloaded or compiled
	complaints []string
}

// count determines the number of packages in the program in source. The go command may download them for that.
func (p *buildProgress) count(ctx context.Context, source string) error {
	cmd := goIn(ctx, source, "list", "-deps", ".")
	cmd.Stderr = p
	out, err := cmd.Output()
	if err != nil {
		return p.explain(ctx, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.packages = bytes.Count(out, []byte("\n"))
	return nil
}

// Write parses the next part of the output.
func (p *buildProgress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = append(p.line, text...)
	for {
		line, rest, whole := bytes.Cut(p.line, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		p.parseLine(string(line))
		p.line = rest
	}
}

// parseLine parses a line. Before compiling a package, the go command prints its path alone, which has no space.
func (p *buildProgress) parseLine(line string) {
	module, downloading := strings.CutPrefix(line, "go: downloading ")
	switch {
	case downloading:
		p.downloaded++
		p.latest = module
	case line != "" && !strings.ContainsAny(line, " \t"):
		p.compiled++
		p.latest = line
	default:
		p.complaints = append(p.complaints, line)
		if len(p.complaints) > keepLines {
			p.complaints = p.complaints[1:]
		}
	}
}

// messages returns the go command's messages other than progress.
func (p *buildProgress) messages() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.TrimSpace(strings.Join(append(p.complaints, string(p.line)), "\n"))
}

// watch logs the progress of the build until the returned function is called, which waits for the last message.
func (p *buildProgress) watch(ctx context.Context, logger *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var logging sync.WaitGroup
	logging.Go(func() {
		start, ticks := time.Now(), time.NewTicker(progressEvery)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				p.log(ctx, logger, time.Since(start))
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); logging.Wait() }
}

func (p *buildProgress) log(ctx context.Context, logger *slog.Logger, elapsed time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	attrs := []any{"elapsed", elapsed.Round(time.Second)}
	if p.downloaded > 0 {
		attrs = append(attrs, "modules downloaded", p.downloaded)
	}
	if p.packages > 0 {
		attrs = append(attrs, "packages compiled", p.compiled, "of at most", p.packages)
	}
	if p.latest != "" {
		attrs = append(attrs, "latest", p.latest)
	}
	logger.InfoContext(ctx, "still building the control plane", attrs...)
}

// stallTime is how long a build may go without downloading or compiling anything. There is no other
// limit: a first build takes as long as the machine needs.
const stallTime = 20 * time.Minute

// errStalled is the cause with which the context of a stalled build ends.
var errStalled = fmt.Errorf("nothing has been downloaded or compiled for %v", stallTime)

// untilStalled returns a context that ends once the build makes no progress.
func (p *buildProgress) untilStalled(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // ends with ctx, which the caller cancels
		ticks := time.NewTicker(progressEvery)
		defer ticks.Stop()
		last, since := p.done(), time.Now()
		for {
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return
			}
			if now := p.done(); now != last {
				last, since = now, time.Now()
			} else if time.Since(since) >= stallTime {
				cancel(errStalled)
			}
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}

// done returns how much has been done: modules downloaded and packages compiled.
func (p *buildProgress) done() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.downloaded + p.compiled
}

// explain returns the error of a go command that failed, or why it was killed.
func (p *buildProgress) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("the build was ended: %w; what has been compiled is kept: run it again, and it goes on from there", context.Cause(ctx))
	}
	return fmt.Errorf("%w: %s", err, p.messages())
}
