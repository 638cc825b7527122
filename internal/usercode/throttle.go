package usercode

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// LogEvery is how often a message is logged.
const LogEvery = time.Minute

// ThrottledLog logs the first occurrence of a message at once, and then at most one a minute, with the
// number of those suppressed.
type ThrottledLog struct {
	logger *slog.Logger

	mu   sync.Mutex
	last map[string]repeated // by message
}

// repeated describes a message that was logged.
type repeated struct {
	at   time.Time
	more int // suppressed since then
}

// NewThrottledLog returns a log that writes to logger.
func NewThrottledLog(logger *slog.Logger) *ThrottledLog {
	return &ThrottledLog{logger: logger, last: map[string]repeated{}}
}

// Log logs the message unless the same one was logged within a minute.
func (t *ThrottledLog) Log(level slog.Level, message string, args ...any) {
	t.mu.Lock()
	now := time.Now()
	before, again := t.last[message]
	if again && now.Sub(before.at) < LogEvery {
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

// write logs a message. The log handler is the user's: a panic in it cannot be reported anywhere,
// and is dropped.
func (t *ThrottledLog) write(level slog.Level, message string, args ...any) {
	defer func() { _ = recover() }()
	t.logger.Log(context.Background(), level, message, args...)
}
