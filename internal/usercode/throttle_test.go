package usercode

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestThrottledLog writes a message at once, then once a minute, and says how many it left out in between.
func TestThrottledLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		log := NewThrottledLog(slog.New(slog.NewTextHandler(&text, nil)))
		for i, step := range []struct {
			wait    time.Duration
			message string
			want    string // of what is written; nothing if empty
		}{
			{0, "a", "level=WARN msg=a n=0\n"},
			{0, "a", ""},
			{0, "b", "level=WARN msg=b n=2\n"},
			{LogEvery - 1, "a", ""},
			{1, "a", "level=WARN msg=a n=4 more_since_last=2\n"},
			{1, "a", ""},
			{LogEvery - 1, "a", "level=WARN msg=a n=6 more_since_last=1\n"},
			{LogEvery, "a", "level=WARN msg=a n=7\n"},
		} {
			time.Sleep(step.wait)
			text.Reset()
			log.Log(slog.LevelWarn, step.message, "n", i)
			_, got, _ := strings.Cut(text.String(), " ") // after the time
			if got != step.want {
				t.Errorf("step %d: wrote %q, want %q", i, got, step.want)
			}
		}
	})
}

// panicking is a log handler that panics.
type panicking struct{ slog.Handler }

func (panicking) Handle(context.Context, slog.Record) error { panic("oh") }

// TestLogHandlerThatPanics harms nobody.
func TestLogHandlerThatPanics(t *testing.T) {
	log := NewThrottledLog(slog.New(panicking{slog.Default().Handler()}))
	for _, message := range []string{"a", "a", "b"} {
		log.Log(slog.LevelWarn, message) // and keeps no lock
	}
}
