package reflector_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/reflector"
)

// behindAnswer is a replica's that is behind, to a list or a WatchList.
func behindAnswer() answer {
	return answer{items: []string{"a@30"}, list: page("50", "").list, reads: []read{got(added("a@30"), initialEnd("50"))}}
}

// brokenAnswer is a good replica's: a first page, whose token the other one refuses, or a WatchList that breaks.
func brokenAnswer() answer {
	return answer{items: []string{"a@80"}, list: page("91", "p2").list, reads: []read{got(added("a@95")), end(io.ErrUnexpectedEOF)}}
}

var refusedToken = failed(apierrors.NewResourceExpired("the continue token has expired"))

// TestBehindInARow meets a replica that is behind, a good one and one that fails in a random order, after an outage. A
// model says when that counts as a restored server: after three answers that are behind, over at least five seconds, with
// nothing in between that is not. What shows that may be a part of a list only, or of a WatchList.
func TestBehindInARow(t *testing.T) {
	seeds(t, 200, func(t *testing.T, seed uint64) {
		random := seeded(seed)
		paged := random.IntN(2) == 0
		s := &script{answers: []answer{page("90", "", "a@80"), stream(read{after: time.Minute, err: io.ErrUnexpectedEOF}), failed(errInternal)}}
		if !paged {
			s.answers = append(s.answers[1:1:1], stream(got(added("a@80"), initialEnd("90")), s.answers[1].reads[0]), s.answers[2])
		}
		kinds := make([]string, len(s.answers)) // of the answers: "behind", "not behind", or nothing
		add := func(kind string, a answer) { kinds, s.answers = append(kinds, kind), append(s.answers, a) }
		add("behind", page("50", "")) // the check
		for range 12 {
			switch random.IntN(5) {
			case 0, 1, 2:
				add("behind", behindAnswer())
			case 3:
				add("", failed(errInternal))
			case 4:
				add("not behind", brokenAnswer())
				add("", refusedToken)
			}
		}
		playInBubble(t, s, reflector.Options[thing]{DisableWatchList: paged, WatchTimeout: time.Hour, PageSize: 1}, 3*time.Minute)
		restored, since, row, n := "", time.Duration(0), 0, 0
		for _, line := range s.lines {
			fields := strings.Fields(line)
			at, _ := time.ParseDuration(fields[0])
			switch {
			case fields[1] != "list" && fields[1] != "watch" && fields[1] != "watchlist":
				continue
			case n == len(kinds) || restored != "":
			case kinds[n] == "behind":
				if row++; row == 1 {
					since = at
				}
				if row >= 3 && at-since >= 5*time.Second {
					restored = fields[0] + " error history rewritten"
				}
			case kinds[n] == "not behind":
				row = 0
			}
			n++
		}
		text := strings.Join(s.lines, "\n")
		if said := strings.Contains(text, "history rewritten"); said != (restored != "") || !strings.Contains(text, restored) {
			t.Errorf("restored: %q\n%s", restored, text)
		}
		if back := strings.Index(text, "replace [a@30]"); back >= 0 && (restored == "" || back < strings.Index(text, restored)) {
			t.Errorf("it went back:\n%s", text)
		}
	})
}

// TestBadReplicaEverySecondTime is never taken for a restored server.
func TestBadReplicaEverySecondTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []answer{
			stream(got(added("a@80"), initialEnd("90")), read{after: time.Minute, err: io.ErrUnexpectedEOF}), failed(errInternal), page("50", ""),
		}}
		for range 30 {
			s.answers = append(s.answers, brokenAnswer(), refusedToken, behindAnswer())
		}
		status := playInBubble(t, s, reflector.Options[thing]{WatchTimeout: time.Hour}, time.Hour)
		if text := strings.Join(s.lines, "\n"); status.Rewrites > 0 || strings.Contains(text, "a@30") {
			t.Errorf("%d rewrites\n%s", status.Rewrites, text)
		}
	})
}
