package serve

import (
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tidings/tidings/serve/internal/callers"
)

// inFlight limits the requests in flight of each user, apart for each of the kinds that must not hold up each other: an
// API server that is slow fills only forwarded, and logs that are followed fill only longRunning.
type inFlight struct {
	answered    limiter // from memory, without watches
	forwarded   limiter
	longRunning limiter // forwarded, too, and open until either side ends them
}

func newInFlight(o Options) inFlight {
	return inFlight{
		answered:    limiter{kind: "answered", most: o.RequestsPerUser},
		forwarded:   limiter{kind: "forwarded", most: o.RequestsPerUser},
		longRunning: limiter{kind: "longRunning", most: o.LongRunningPerUser},
	}
}

// all returns the limiters.
func (f *inFlight) all() []*limiter { return []*limiter{&f.answered, &f.forwarded, &f.longRunning} }

// ofForwarded returns the limiter for a request that is forwarded.
func (f *inFlight) ofForwarded(r *http.Request, info *request.RequestInfo) *limiter {
	if isLongRunning(r, info) {
		return &f.longRunning
	}
	return &f.forwarded
}

// isLongRunning reports whether a request may last as long as its client wants.
func isLongRunning(r *http.Request, info *request.RequestInfo) bool {
	if r.Header.Get("Upgrade") != "" || info.Verb == "watch" || info.Verb == "proxy" {
		return true
	}
	switch info.Subresource {
	case "attach", "exec", "portforward", "proxy":
		return true
	case "log":
		return r.URL.Query().Has("follow")
	}
	return false
}

// limiter limits the requests in flight of each user. It counts by name alone: a user has one limit however many tokens
// it has, and forgets users without requests, so that names cannot fill it.
type limiter struct {
	kind string // for messages and metrics
	most int

	mu      sync.Mutex     // guards the fields below
	users   map[string]int // how many each has in flight, if any
	refused int64
}

// limit answers a request by calling do, or with 429 if its user has too many in flight.
func (l *limiter) limit(w http.ResponseWriter, r *http.Request, do func()) {
	user := callers.UserOf(r)
	if !l.begin(user) {
		why := fmt.Sprintf("user %q has %d requests in flight (%s), and may have no more", user, l.most, l.kind)
		writeError(w, r, apierrors.NewTooManyRequests(why, 1))
		return
	}
	defer l.end(user)
	do()
}

func (l *limiter) begin(user string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users[user] >= l.most {
		l.refused++
		return false
	}
	if l.users == nil {
		l.users = map[string]int{}
	}
	l.users[user]++
	return true
}

func (l *limiter) end(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users[user]--; l.users[user] == 0 {
		delete(l.users, user)
	}
}

// counts returns how many requests are in flight, and how many have been refused.
func (l *limiter) counts() (inFlight, refused int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.users {
		inFlight += int64(n)
	}
	return inFlight, l.refused
}
