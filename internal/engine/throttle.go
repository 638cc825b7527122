package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// logEvery is how often a message is logged.
const logEvery = time.Minute

// throttled logs the first occurrence of a message at once, and then at most one a minute, with the number of those suppressed.
type throttled struct {
	logger *slog.Logger

	mu   sync.Mutex
	last map[string]repeated // by message
}

// repeated describes a message that was logged.
type repeated struct {
	at   time.Time
	more int // suppressed since then
}

func newThrottled(logger *slog.Logger) *throttled {
	return &throttled{logger: logger, last: map[string]repeated{}}
}

// log logs the message unless the same one was logged within a minute.
func (t *throttled) log(level slog.Level, message string, args ...any) {
	t.mu.Lock()
	now := time.Now()
	before, again := t.last[message]
	if again && now.Sub(before.at) < logEvery {
		before.more++
		t.last[message] = before
		t.mu.Unlock()
		return
	}
	t.last[message] = repeated{at: now}
	t.mu.Unlock()
	if before.more > 0 {
		args = append(args, "more_since_last", before.more)
	}
	t.write(level, message, args...)
}

// write logs a message. The log handler is the user's: a panic in it cannot be reported anywhere, and is dropped.
func (t *throttled) write(level slog.Level, message string, args ...any) {
	defer func() { _ = recover() }()
	t.logger.Log(context.Background(), level, message, args...)
}
