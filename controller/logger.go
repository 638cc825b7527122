package controller

import (
	"cmp"
	"context"
	"log/slog"
)

// newLogger returns a logger that survives panics of the given one's handler; nil means slog.Default().
func newLogger(logger *slog.Logger) *slog.Logger {
	return slog.New(recoveringHandler{cmp.Or(logger, slog.Default()).Handler()})
}

// recoveringHandler wraps a user's log handler. It drops its panics, which cannot be reported
// anywhere: most messages are logged on goroutines of this package, where a panic would end the
// process.
type recoveringHandler struct{ user slog.Handler }

// Enabled asks the user's handler.
func (h recoveringHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer func() { _ = recover() }()
	return h.user.Enabled(ctx, level)
}

// Handle passes the record on.
func (h recoveringHandler) Handle(ctx context.Context, r slog.Record) error {
	defer func() { _ = recover() }()
	return h.user.Handle(ctx, r)
}

// WithAttrs wraps the result of the user's handler.
func (h recoveringHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return recoveringHandler{h.user.WithAttrs(attrs)}
}

// WithGroup wraps the result of the user's handler.
func (h recoveringHandler) WithGroup(name string) slog.Handler {
	return recoveringHandler{h.user.WithGroup(name)}
}
