package reflector_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
)

// resumeTwice fails once and then returns a version.
func resumeTwice(version string) reflector.Hooks[thing] {
	calls := 0
	return reflector.Hooks[thing]{Resume: func(context.Context) (intake.Contents, error) {
		if calls++; calls == 1 {
			return intake.Contents{}, errors.New("nobody knows the cluster")
		}
		return intake.Contents{ResourceVersion: version}, nil
	}}
}

func TestResume(t *testing.T) {
	runScripts(t, []scripted{{
		name:    "what fails is asked again before anything else",
		hooks:   resumeTwice("40"),
		answers: []answer{page("41", ""), stream(got(added("a@41"))), stream()},
		want: `
			0s error protocol in starting, attempt 1
			800ms list "" limit=1 token=""
			800ms watch "40"
			800ms add Added a@41 @41`,
	}, {
		name:    "nothing to resume from",
		hooks:   from(""),
		answers: []answer{stream(got(added("a@1"), initialEnd("5")))},
		want: `
			0s watchlist ""
			0s replace [a@1] @5`,
	}, {
		name: "a list is to come first: a replica that is behind is refused",
		hooks: reflector.Hooks[thing]{Resume: func(context.Context) (intake.Contents, error) {
			return intake.Contents{ResourceVersion: "40", List: true}, nil
		}},
		answers: []answer{stream(got(added("a@30"), initialEnd("35"))), stream(got(added("a@30"), added("b@41"), initialEnd("41")))},
		want: `
			0s watchlist "40"
			0s error server is behind in watch-listing, attempt 1
			800ms watchlist ""
			800ms replace [a@30 b@41] @41`,
	}, {
		name:    "the stream says that the version has expired",
		hooks:   from("40"),
		answers: []answer{page("50", ""), stream(end(errExpired)), stream(got(added("a@1"), initialEnd("50")))},
		want: `
			0s list "" limit=1 token=""
			0s watch "40"
			0s error expired in watching, attempt 1
			0s watchlist "40"
			0s replace [a@1] @50`,
	}})
}

// OnResume is called for watches after Resume, and not for those after a list.
func TestOnResume(t *testing.T) {
	var recent []string
	s := &script{answers: []answer{
		page("50", ""), stream(end(errInternal)), stream(end(errExpired)),
		stream(got(added("a@1"), initialEnd("50")), end(errInternal)), stream(),
	}}
	s.hooks = from("40")
	s.hooks.OnResume = func(_ context.Context, version string) { recent = append(recent, version) }
	play(t, s, reflector.Options[thing]{}, time.Minute)
	if want := []string{"50", "50"}; !slices.Equal(recent, want) {
		t.Errorf("told of %q, want %q\n%s", recent, want, strings.Join(s.lines, "\n"))
	}
}

// TestWitness resumes with an object that shows whether the server's history is the same.
func TestWitness(t *testing.T) {
	held := reflector.Hooks[thing]{Resume: func(context.Context) (intake.Contents, error) {
		return intake.Contents{ResourceVersion: "40", Newest: object.Key{Name: "a"}}, nil
	}}
	const asked = `
			0s list "" limit=1 token="" only=a`
	const watched, listed = asked + `
			0s watch "40"`, asked + `
			0s watchlist "40"
			0s replace [] @60`
	rewritten := asked + `
			0s error history rewritten in checking, attempt 1
			0s watchlist ""
			0s replace [] @60`
	end := stream(got(initialEnd("60")))
	for _, tt := range []struct {
		name, want string
		answers    []answer
	}{
		{"it is the same", watched, []answer{page("50", "", "a@40"), stream()}},
		{"it was changed since", watched, []answer{page("50", "", "a@45"), stream()}},
		{"it is older", rewritten, []answer{page("50", "", "a@30"), end}},
		{"it is another of the same time", rewritten, []answer{page("50", "", "a@39"), end}},
		{"it is gone", listed, []answer{page("50", ""), end}},
		{"it cannot be decoded", watched, []answer{page("50", "", "!a@40"), stream()}},
		{"the source lists others", watched, []answer{page("50", "", "x@7"), stream()}},
		{"the server cannot list one object", asked + `
			0s list "" limit=1 token=""
			0s watch "40"`, []answer{failed(apierrors.NewBadRequest("field label not supported")), page("50", "", "x@7"), stream()}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &script{answers: tt.answers, hooks: held, held: map[object.Key]thing{{Name: "a"}: obj("a@40")}}
			play(t, s, reflector.Options[thing]{WatchTimeout: time.Hour}, time.Minute)
			if got := strings.Join(s.lines, "\n"); !slices.Equal(strings.Fields(got), strings.Fields(tt.want)) {
				t.Errorf("got\n%s\nwant%s", got, tt.want)
			}
		})
	}
}
