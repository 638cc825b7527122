package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// TestLog checks what is logged at Info and above, and when.
func TestLog(t *testing.T) {
	cut := read{after: time.Minute, err: io.ErrUnexpectedEOF}
	tests := []struct {
		name    string
		answers []answer
		want    string
	}{{
		name:    "all is well",
		answers: []answer{stream(got(added("a@1"), initialEnd("5")), got(modified("a@6")), clean(time.Minute)), stream(clean(time.Minute)), stream(), page("6", "")},
	}, {
		name:    "a watch that is cut and taken up again",
		answers: []answer{stream(got(initialEnd("5")), cut), stream(cut), stream(cut), stream(), page("5", "")},
	}, {
		name:    "an outage",
		answers: append(append([]answer{stream(got(initialEnd("5")), cut)}, slices.Repeat([]answer{failed(syscall.ECONNREFUSED)}, 9)...), page("5", ""), stream()),
		want: `
			1m0s WARN connection refused attempt=2
			2m20.4s WARN connection refused attempt=9 failures_since=6
			3m20.4s INFO recovered failures=10 after=2m20.4s`,
	}, {
		name: "a reason that changes is told at once, and the old one not again within the minute",
		answers: []answer{failed(syscall.ECONNREFUSED), failed(syscall.ECONNREFUSED), failed(errInternal), failed(syscall.ECONNREFUSED), failed(errInternal),
			stream(got(initialEnd("5")))},
		want: `
			0s WARN connection refused attempt=1
			2.4s WARN server error attempt=3
			8s INFO recovered failures=5 after=8s`,
	}, {
		name:    "a relist",
		answers: []answer{stream(got(initialEnd("5")), read{after: time.Minute, err: errExpired}), stream(got(added("a@1"), initialEnd("9")))},
		want: `
			1m0s INFO relisted objects=1 resource_version=9`,
	}, {
		name:    "a flood of objects that cannot be decoded",
		answers: []answer{stream(append([]read{got(initialEnd("5"))}, everySecond(90, slices.Repeat(events{invalid(source.Modified, "a@6")}, 10)...)...)...)},
		want: `
			1s WARN invalid object invalid_so_far=1
			1m1s WARN invalid object invalid_so_far=601`,
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{answers: tt.answers}
			var lines lineHandler
			opts := reflector.Options[thing]{Logger: slog.New(&lines), WatchTimeout: time.Hour}
			lines.script = s
			play(t, s, opts, 6*time.Minute)
			if got := strings.Join(lines.lines, "\n"); !slices.Equal(strings.Fields(got), strings.Fields(tt.want)) {
				t.Errorf("got\n%s\nwant%s", got, strings.ReplaceAll(tt.want, "\t", ""))
			}
		})
	}
}

// lineHandler records the time, the level, the reason and the attributes with counts.
type lineHandler struct {
	script *script
	lines  []string
}

func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}
func (h *lineHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *lineHandler) WithGroup(string) slog.Handler      { return h }

func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "" {
		return errors.New("an empty message")
	}
	message := r.Message
	if _, rest, ok := strings.Cut(message, "things.example.com: "); ok {
		message, _, _ = strings.Cut(rest, ":")
	}
	line := fmt.Sprintf("%v %v %s", time.Since(h.script.start).Round(100*time.Millisecond), r.Level, message)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "phase" && a.Key != "retry_in" && a.Key != "resource" {
			line += " " + a.String()
		}
		return true
	})
	h.lines = append(h.lines, line)
	return nil
}
