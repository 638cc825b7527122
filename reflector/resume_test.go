package reflector_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/reflector"
)

// resumeTwice fails once and then returns a version.
func resumeTwice(version string) func(context.Context) (string, error) {
	calls := 0
	return func(context.Context) (string, error) {
		if calls++; calls == 1 {
			return "", errors.New("nobody knows the cluster")
		}
		return version, nil
	}
}

func TestResume(t *testing.T) {
	runScripts(t, []scripted{{
		name:    "what fails is asked again before anything else",
		opts:    reflector.Options[thing]{Resume: resumeTwice("40")},
		answers: []answer{page("41", ""), stream(got(added("a@41"))), stream()},
		want: `
			0s error protocol in starting, attempt 1
			800ms list "" limit=1 token=""
			800ms watch "40"
			800ms add Added a@41 @41`,
	}, {
		name:    "nothing to resume from",
		opts:    reflector.Options[thing]{Resume: from("")},
		answers: []answer{stream(got(added("a@1"), initialEnd("5")))},
		want: `
			0s watchlist ""
			0s replace [a@1] @5`,
	}, {
		name:    "the stream says that the version has expired",
		opts:    reflector.Options[thing]{Resume: from("40")},
		answers: []answer{page("50", ""), stream(end(errExpired)), stream(got(added("a@1"), initialEnd("50")))},
		want: `
			0s list "" limit=1 token=""
			0s watch "40"
			0s error expired in watching, attempt 1
			0s watchlist "40"
			0s replace [a@1] @50`,
	}})
}

// OnResume is called for watches that follow the version of Resume, and for none that follows a list.
func TestOnResume(t *testing.T) {
	var recent []string
	opts := reflector.Options[thing]{Resume: from("40"), OnResume: func(_ context.Context, version string) { recent = append(recent, version) }}
	s := &script{answers: []answer{
		page("50", ""), stream(end(errInternal)), stream(end(errExpired)),
		stream(got(added("a@1"), initialEnd("50")), end(errInternal)), stream(),
	}}
	play(t, s, opts, time.Minute)
	if want := []string{"50", "50"}; !slices.Equal(recent, want) {
		t.Errorf("told of %q, want %q\n%s", recent, want, strings.Join(s.lines, "\n"))
	}
}
