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
	// progressEvery is how often a build that goes on says so.
	progressEvery = 10 * time.Second
	// keepLines is how many lines of what the go command complained about an error carries.
	keepLines = 20
)

// buildProgress reads what "go build -v" writes to its standard error: modules that it downloads, packages that it
// compiles, and complaints.
type buildProgress struct {
	mu         sync.Mutex
	packages   int    // that the program is made of, 0 while it is not known; those in the build cache are not compiled again
	line       []byte // the last one, as far as it has come
	downloaded int
	compiled   int
	latest     string // what is being downloaded or compiled
	complaints []string
}

// count finds out how many packages the program in source is made of. The go command may download them for that.
func (p *buildProgress) count(ctx context.Context, source string) error {
	cmd := goIn(ctx, source, "list", "-deps", ".")
	cmd.Stderr = p
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w: %s", err, p.complaint())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.packages = bytes.Count(out, []byte("\n"))
	return nil
}

// Write takes the next part of the output.
func (p *buildProgress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = append(p.line, text...)
	for {
		line, rest, whole := bytes.Cut(p.line, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		p.note(string(line))
		p.line = rest
	}
}

// note takes a line. The go command names a package by its path alone, without a space in it, before it compiles it.
func (p *buildProgress) note(line string) {
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

// complaint is what the go command said that is not progress.
func (p *buildProgress) complaint() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.TrimSpace(strings.Join(append(p.complaints, string(p.line)), "\n"))
}

// watch logs how far the build is until the function it returns is called, which waits for the last line.
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
