package reflector

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

func TestVersionsAreStored(t *testing.T) {
	var v version
	for _, s := range []string{"", "1", "", "2", "0", "3", "007", "18446744073709551615", "18446744073709551616", "5", "abc", "+5", "-5", "6", "1e3", "10"} {
		if v.store(s); v.load() != s {
			t.Errorf("stored %q, loaded %q", s, v.load())
		}
	}
}

func newTestRetry(b Backoff, peers *Peers) retry {
	return newRetry(b, peers, rand.New(rand.NewPCG(1, 1)))
}

// TestWaitsGrow separately for servers that respond and servers that do not, until there is progress.
func TestWaitsGrow(t *testing.T) {
	r := newTestRetry(Backoff{Min: time.Second, Max: 10 * time.Second, Factor: 2}, nil)
	answered, unreached := apierrors.NewInternalError(errors.New("no")), syscall.ECONNREFUSED
	for _, tt := range []struct {
		err  error
		want time.Duration
	}{
		{answered, 1}, {answered, 2}, {unreached, 1}, {answered, 4}, {answered, 8}, {answered, 10}, {answered, 10}, {unreached, 2},
		{apierrors.NewTooManyRequests("", 7), 7}, {apierrors.NewTooManyRequests("", 7), 7}, {apierrors.NewTooManyRequests("", 100_000), 300}, {unreached, 4},
	} {
		if got := r.after(tt.err); got != tt.want*time.Second {
			t.Errorf("after %v: %v, want %d s", tt.err, got, tt.want)
		}
	}
	r.progressed()
	if a, u := r.after(answered), r.after(unreached); a != time.Second || u != time.Second {
		t.Errorf("after progress: %v and %v", a, u)
	}
}

// TestJitter spreads waits within the limits of the backoff.
func TestJitter(t *testing.T) {
	r := newTestRetry(Backoff{Min: time.Second, Max: 4 * time.Second, Factor: 2, Jitter: 0.5}, nil)
	for _, want := range []struct{ low, high time.Duration }{{1000, 1500}, {2000, 3000}, {2666, 4000}, {2666, 4000}} {
		shortest, longest := time.Hour, time.Duration(0)
		before := r.answered
		for range 200 {
			r.answered = before
			got := r.after(apierrors.NewInternalError(errors.New("no")))
			shortest, longest = min(shortest, got), max(longest, got)
		}
		low, high := want.low*time.Millisecond, want.high*time.Millisecond
		if shortest < low || longest > high || longest-shortest < (high-low)*3/4 {
			t.Errorf("waits from %v to %v, want %v to %v", shortest, longest, low, high)
		}
	}
	longest := time.Duration(0)
	for range 200 {
		got := r.spread(time.Second)
		if longest = max(longest, got); got < 0 || got > time.Second {
			t.Errorf("spread over a second: %v", got)
		}
	}
	if longest < time.Second*3/4 {
		t.Errorf("of a second at most %v", longest)
	}
	if got := r.after(apierrors.NewTooManyRequests("", 1)); got < time.Second || got > time.Second+shortSpread {
		t.Errorf("asked for a second: %v", got)
	}
}

// TestWakesOfPeers end waits early, but not indefinitely.
func TestWakesOfPeers(t *testing.T) {
	r := newTestRetry(Backoff{Min: time.Second, Max: time.Minute, Factor: 2}, nil)
	for range maxWakes {
		if got := r.awaits(Refused); got.class != classUnreachable {
			t.Errorf("awaits %+v", got)
		}
		r.woken(Refused)
	}
	if got := r.awaits(Refused); got.class != classAlone {
		t.Errorf("after %d wakes for nothing it awaits %+v", maxWakes, got)
	}
	if r.waited(""); r.awaits(Refused).class != classAlone {
		t.Error("a wait that no failure had made necessary counts")
	}
	if r.waited(Refused); r.awaits(Refused).class != classUnreachable {
		t.Error("a wait that has ended by itself does not count")
	}
	r.answered = time.Minute
	if r.woken(Refused); r.answered != time.Minute {
		t.Error("what peers find out of the connection begins the waits for answers anew")
	}
	if r.woken(NotFound); r.answered != 0 {
		t.Error("a resource that has appeared does not begin the waits anew")
	}
	r.woken(Refused)
	if r.progressed(); r.awaits(Server).class != classFailing {
		t.Error("progress does not count")
	}
}

// TestTurns are evenly spaced, and random if all are taken.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var peers Peers
		r := newTestRetry(Backoff{Min: time.Second, Max: time.Minute, Factor: 2, Jitter: 1}, &peers)
		for i := range maxTurns + 1 {
			want := time.Duration(i) * time.Second
			if got := r.waitForTurn(time.Second); got < want || got > want+shortSpread {
				t.Errorf("turn %d after %v", i, got)
			}
		}
		for range 50 {
			if got := r.waitForTurn(time.Second); got < 0 || got > maxTurns*time.Second {
				t.Errorf("a turn that is not there after %v", got)
			}
		}
		time.Sleep(time.Hour)
		if got := r.waitForTurn(time.Second); got > shortSpread {
			t.Errorf("later: a turn after %v", got)
		}
		if got := r.atOnce(syscall.ECONNRESET); got < time.Second/2 || got > time.Second+shortSpread {
			t.Errorf("at once after a broken connection: %v", got)
		}
		if got := r.atOnce(errShortWatch); got > shortSpread {
			t.Errorf("at once after an answer: %v", got)
		}
		if got := r.atOnce(apierrors.NewTooManyRequests("", 9)); got < 9*time.Second {
			t.Errorf("at once where the server asks to wait: %v", got)
		}
		r.Jitter = 0
		if got := r.waitForTurn(time.Second); got != 0 {
			t.Errorf("without jitter: %v", got)
		}
	})
}

// TestPace admits a burst, and then one at a time.
func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	p := tokenBucket{tokens: 3, burst: 3, every: time.Second}
	for i := range 3 {
		if wait := p.take(now); wait != 0 {
			t.Errorf("request %d waits %v", i, wait)
		}
	}
	wait := p.take(now)
	if wait < time.Second || wait > time.Second+time.Millisecond {
		t.Errorf("one too many waits %v", wait)
	}
	now = now.Add(wait)
	if again := p.take(now); again != 0 {
		t.Errorf("after the wait: %v", again)
	}
	now = now.Add(time.Hour)
	for range 3 {
		if wait := p.take(now); wait != 0 {
			t.Errorf("after an hour: %v", wait)
		}
	}
	if p.take(now) == 0 {
		t.Error("a burst larger than it may be")
	}
}

func foreignAnswer(code int, text string) error {
	return apierrors.NewGenericServerResponse(code, "get", schema.GroupResource{}, "", text, 0, true)
}

// TestWrongWayToSpeak recognizes ports that expect TLS by the messages of various servers.
func TestWrongWayToSpeak(t *testing.T) {
	for _, err := range []error{
		foreignAnswer(http.StatusBadRequest, "Client sent an HTTP request to an HTTPS server.\n"),
		foreignAnswer(http.StatusBadRequest, "<html>The plain HTTP request was sent to HTTPS port</html>"),
		fmt.Errorf("get: %w", errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "\x15\x03\x01"`)),
		http.ErrSchemeMismatch,
	} {
		if got := reasonOf(err); got != WrongAddress {
			t.Errorf("%v: %s", err, got)
		}
	}
	for _, err := range []error{foreignAnswer(http.StatusBadRequest, "what?"), errors.New("malformed HTTP response")} {
		if got := reasonOf(err); got == WrongAddress {
			t.Errorf("%v: %s", err, got)
		}
	}
}

// TestCredentialErrors extracts the problem with credentials from an error's text.
func TestCredentialErrors(t *testing.T) {
	for text, want := range map[string]struct {
		line    string
		missing bool
	}{
		"get https://x: getting credentials: exec: executable aws not found\nIt looks like": {"exec: executable aws not found", true},
		"get https://x: getting credentials: exec: executable aws failed with exit code 1":  {"exec: executable aws failed with exit code 1", false},
		"getting credentials: token not found":                                              {"token not found", false},
		"get: failed to read token file \"/t\": gone":                                       {"failed to read token file \"/t\": gone", false},
		"exec: executable aws not found":                                                    {"", false},
	} {
		err := errors.New(text)
		if got := credentialsError(err); got != want.line {
			t.Errorf("%q: %q", text, got)
		}
		if got := missingPlugin(err); got != want.missing {
			t.Errorf("%q: a plugin is missing: %t", text, got)
		}
	}
}

type plain = *metav1.PartialObjectMetadata

// nowhere is a sink that keeps nothing.
type nowhere struct{}

func (nowhere) Replace(object.Collection[plain], string) {}
func (nowhere) Add([]object.Delta[plain], string)        {}

// TestPeersWakeAgain reflectors that they have woken in vain, once these have waited by themselves;
// none is left waiting at the end.
func TestPeersWakeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int64
		var peers Peers
		r, err := New(Options[plain]{
			Sink: nowhere{}, Peers: &peers, Backoff: Backoff{Min: time.Minute, Max: time.Minute, Factor: 1, Jitter: -1}, DisableWatchList: true,
			Source: source.Funcs[plain]{ListFunc: func(context.Context, source.ListOptions[plain], func(plain) error) (source.ListResult, error) {
				requests.Add(1)
				return source.ListResult{}, apierrors.NewInternalError(errors.New("no"))
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.Run(ctx) })
		recovers := func(woken bool) {
			t.Helper()
			before := requests.Load()
			peers.noteServed(schema.GroupVersionResource{Resource: "others"}, true)
			time.Sleep(time.Second)
			synctest.Wait()
			if got := requests.Load() > before; got != woken {
				t.Errorf("after %d requests: woken is %t", before, got)
			}
		}
		time.Sleep(time.Second)
		for range maxWakes {
			recovers(true)
		}
		recovers(false)
		time.Sleep(time.Minute)
		recovers(true)
		cancel()
		running.Wait()
		if len(peers.waiting) > 0 {
			t.Errorf("%d still wait", len(peers.waiting))
		}
	})
}

func TestTextOfWhatIsSkipped(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, "an event of unknown type was skipped"},
		{errors.New("garbage"), "an event was skipped: garbage"},
		{&source.ObjectError{Key: object.Key{Name: "a"}, Err: errors.New("garbage")}, "object a: garbage; its last known state is kept"},
	} {
		if got := (invalidError{tt.err}).Error(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
