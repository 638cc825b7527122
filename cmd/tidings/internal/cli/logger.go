package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// NewLogger returns a logger for people: it writes one line to w for each record of at least this level.
func NewLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(logHandler{w: w, level: level})
}

// logHandler writes "warning: what happened (name: value, name: value)".
type logHandler struct {
	w     io.Writer
	level slog.Level
	attrs []string
	group string
}

func (h logHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clip(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, h.text(a))
		return true
	})
	line := levelName(r.Level) + ": " + r.Message
	if len(attrs) > 0 {
		line += " (" + strings.Join(attrs, ", ") + ")"
	}
	_, err := io.WriteString(h.w, Printable(line)+"\n")
	return err
}

func levelName(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "error"
	case level >= slog.LevelWarn:
		return "warning"
	default:
		return strings.ToLower(level.String())
	}
}

func (h logHandler) text(a slog.Attr) string {
	return fmt.Sprintf("%s%s: %v", h.group, a.Key, a.Value.Resolve())
}

// WithAttrs returns a handler that adds these to every line.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = slices.Clip(h.attrs)
	for _, a := range attrs {
		h.attrs = append(h.attrs, h.text(a))
	}
	return h
}

// WithGroup returns a handler that puts the name before those of its attributes.
func (h logHandler) WithGroup(name string) slog.Handler {
	h.group += name + "."
	return h
}
