package serve

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/tidings/tidings/tidingstest"
)

const mapsPath = "/api/v1/namespaces/default/configmaps"

// TestGetsShareReviews: gets of any names cost two reviews if their user may get and list everything, and one for each
// name otherwise. The right to get everything is not enough without that to list it.
func TestGetsShareReviews(t *testing.T) {
	const names = 20
	for user, test := range map[string]struct {
		verbs   []string // for all names
		reviews int64
	}{
		"all":    {[]string{"get", "list"}, 2},
		"getter": {[]string{"get"}, 1 + names},
		"lister": {[]string{"list"}, 2 + names},
	} {
		v := &reviewer{allow: func(spec authorizationv1.SubjectAccessReviewSpec) bool {
			a := spec.ResourceAttributes
			return slices.Contains(test.verbs, a.Verb) || a.Verb == "get" && a.Name < "map-010" && a.Name != ""
		}}
		f := newReviewed(t, v, 1, tidingstest.ServerOptions{}, Options{})
		for i := range names {
			f.Create(configMap(fmt.Sprintf("map-%03d", i), "a"))
		}
		f.synced(t)
		for i := range names {
			want := http.StatusOK
			if i >= 10 && user == "lister" {
				want = http.StatusForbidden
			}
			path := fmt.Sprintf("%s/map-%03d?resourceVersion=0", mapsPath, i)
			if code, body := answerTo(t, f.replicas[0].config(as(f.config, user)), path, nil); code != want {
				t.Errorf("%s %s: %d %s", user, path, code, body)
			}
		}
		if n := v.access.Load(); n != test.reviews {
			t.Errorf("%s: %d reviews, want %d", user, n, test.reviews)
		}
	}
}

// TestEqualReviewsAreAskedOnce has many requests come at the same time.
func TestEqualReviewsAreAskedOnce(t *testing.T) {
	v := &reviewer{hold: make(chan struct{})}
	f := newReviewed(t, v, 1, tidingstest.ServerOptions{}, Options{})
	f.Create(configMap("x", "a"))
	f.synced(t)
	var work sync.WaitGroup
	const requests = 20
	for range requests {
		work.Go(func() {
			code, body := answerTo(t, f.replicas[0].config(as(f.config, "user")), mapsPath+"?resourceVersion=0", nil)
			if code != http.StatusOK {
				t.Error(code, body)
			}
		})
	}
	eventually(t, func() bool {
		inFlight, _ := f.replicas[0].inFlight.answered.counts()
		return inFlight == requests
	})
	close(v.hold)
	work.Wait()
	if n := v.access.Load(); n != 1 {
		t.Errorf("%d reviews", n)
	}
}
