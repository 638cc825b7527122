package replicaset

import (
	"context"
	"log/slog"
	"sync"
)

// failureLog is a log handler that keeps the errors of reconciles that failed.
type failureLog struct {
	slog.Handler
	mu    sync.Mutex
	texts []string
}

func (f *failureLog) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.texts = append(f.texts, a.Value.String())
		}
		return true
	})
	return f.Handler.Handle(ctx, r)
}

// WithAttrs keeps what is logged with attributes in the same log.
func (f *failureLog) WithAttrs([]slog.Attr) slog.Handler { return f }

// take returns the errors since it was last called.
func (f *failureLog) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	texts := f.texts
	f.texts = nil
	return texts
}
