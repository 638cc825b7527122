package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// TestWhatFollowsAWatch compares what follows each way in which a watch can end with a model: by what the watch had
// brought, how long it lived, and how many watches before it were cut after 20 seconds. Wherever the model resumes,
// client-go does so too, and no sooner.
func TestWhatFollowsAWatch(t *testing.T) {
	const brought = 200 * time.Millisecond // when it comes
	for _, end := range watchEnds {
		for _, delivered := range []string{"nothing", "bookmark", "event"} {
			for _, lived := range []time.Duration{500 * time.Millisecond, 5 * time.Second, time.Minute, 100 * time.Second, 200 * time.Second} {
				for _, cuts := range []int{0, 1, 7} {
					name := fmt.Sprintf("%s after %s in %v and %d cuts", end.name, delivered, lived, cuts)
					synctest.Test(t, func(t *testing.T) {
						s := &script{}
						cut := read{after: 20 * time.Second, err: syscall.ECONNRESET}
						for i := range cuts {
							if i == 0 {
								s.answers = append(s.answers, stream(got(initialEnd("5")), cut))
							} else {
								s.answers = append(s.answers, stream(cut))
							}
						}
						var reads []read
						if cuts == 0 {
							reads = append(reads, got(initialEnd("5")))
						}
						last := read{after: lived, err: end.err}
						switch delivered {
						case "bookmark":
							reads = append(reads, read{after: brought, events: events{bookmark("5")}})
							last.after -= brought
						case "event":
							reads = append(reads, read{after: brought, events: events{added("a@6")}})
							last.after -= brought
						}
						s.answers = append(s.answers, stream(append(reads, last)...))
						silent, doubt := last.after, time.Duration(cuts-1)*20*time.Second+lived // since the first watch that was not confirmed
						if beside := 90 * time.Second; cuts > 0 && delivered == "nothing" && lived > beside {
							s.answers = append(s.answers, page("5", "")) // the check beside a watch without a sign of life
							silent, doubt = silent-beside, 0
						}
						if cuts == 0 || delivered != "nothing" {
							doubt = 0
						}
						s.answers = append(s.answers, page("6", "")) // in case there is a check
						want := followsModel(end.name, delivered == "event" || lived >= time.Second, silent, doubt)
						playInBubble(t, s, reflector.Options[thing]{WatchTimeout: time.Hour}, time.Duration(cuts)*20*time.Second+lived+3*time.Second)
						if got := firstAfter(s, time.Duration(cuts)*20*time.Second+lived); got != want {
							t.Errorf("%s: %s, want %s\n%s", name, got, want, strings.Join(s.lines, "\n"))
						}
					})
				}
			}
		}
	}
}

var watchEnds = []struct {
	name string
	err  error
}{
	{"close", io.EOF}, {"ended", source.ErrEnded}, {"cut", io.ErrUnexpectedEOF}, {"reset", syscall.ECONNRESET},
	{"garbage", errors.New("garbage")},
	{"500", errInternal}, {"429", errBriefly}, {"410", errExpired},
}

// followsModel returns the request that follows the end of a watch, and after how long. A watch has worked if it brought
// news or lived for a second. The server was silent for the given time before, and no watch has shown for the time of
// doubt that it has their history.
func followsModel(end string, worked bool, silent, doubt time.Duration) string {
	wait, next := 800*time.Millisecond, "watch"
	switch {
	case end == "garbage": // which comes from a server that is there
	case silent >= 90*time.Second, end == "close" && worked && doubt >= 2*time.Minute:
		next = "check"
	}
	switch {
	case end == "410":
		wait, next = 0, "watchlist"
	case end == "429":
		wait = time.Second
	case worked:
		wait = 0
	}
	return fmt.Sprint(next, " after ", wait)
}

// firstAfter returns the first request since the given time, as followsModel does. A check beside a watch does not count.
func firstAfter(s *script, since time.Duration) string {
	for _, line := range s.lines {
		fields := strings.Fields(line)
		at, err := time.ParseDuration(fields[0])
		switch {
		case err != nil || at < since || !slices.Contains([]string{"list", "watch", "watchlist"}, fields[1]):
			continue
		case fields[1] == "list":
			fields[1] = "check"
		}
		return fmt.Sprint(fields[1], " after ", at-since)
	}
	return "nothing"
}

// TestCutForHours has a proxy that resets every connection after 20 seconds, before the first bookmark: one watch follows
// another without a check, but for one an hour.
func TestCutForHours(t *testing.T) {
	for _, every := range []time.Duration{5 * time.Second, 20 * time.Second, 70 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			const hours = 5
			s := &script{answers: []answer{stream(got(initialEnd("5")), read{after: every, err: syscall.ECONNRESET})}}
			for range 2 * hours * int(time.Hour/every) {
				s.answers = append(s.answers, answer{reads: []read{{after: every, err: syscall.ECONNRESET}}, list: page("5", "").list})
			}
			playInBubble(t, s, reflector.Options[thing]{WatchTimeout: time.Hour}, hours*time.Hour)
			lists, watches := 0, 0
			var open time.Duration
			for _, line := range s.lines {
				switch fields := strings.Fields(line); fields[1] {
				case "list":
					lists++
				case "watch":
					watches++
					at, _ := time.ParseDuration(fields[0])
					open = max(open, at%every)
				}
			}
			if lists > hours || lists < hours-1 || watches > int(hours*time.Hour/every) || open > 0 {
				t.Errorf("every %v: %d lists, %d watches, up to %v late", every, lists, watches, open)
			}
		})
	}
}

// TestManyLogTogether has 60 reflectors of a server that offers no WatchList, and that loses its connections and its
// history every 80 seconds: one line says so for all of them.
func TestManyLogTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reflectors, losses = 60, 6
		var log strings.Builder
		var peers reflector.Peers
		logger := slog.New(slog.NewTextHandler(&lockedWriter{w: &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
		for i := range reflectors {
			s := &script{answers: []answer{failed(errInvalid), page("5", "")}, start: time.Now()}
			for range losses {
				s.answers = append(s.answers, stream(read{after: 80 * time.Second, err: syscall.ECONNRESET}), failed(errExpired), page("5", ""))
			}
			r, err := reflector.New(reflector.Options[thing]{
				Source: s, Sink: s, Seed: uint64(i + 1), Peers: &peers, Logger: logger, WatchTimeout: time.Hour, Name: fmt.Sprint("r", i),
			})
			if err != nil {
				t.Fatal(err)
			}
			stop := run(t, r)
			defer stop()
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 3*losses+1 || strings.Count(log.String(), "times_since=59") < 3*(losses-1) {
			t.Errorf("%d lines:\n%s", len(lines), log.String())
		}
	})
}

// lockedWriter is a writer for several goroutines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
