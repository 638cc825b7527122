package tail

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/reflector"
)

// server is what has been shown about the server as a whole.
type server struct {
	outage *outage // nil while it is reachable
	stale  bool
	// breaks counts the connections that broke and were restored at once since that was last shown,
	// which was at breaksShown.
	breaks      int
	breaksShown time.Time
}

// outage is a time in which the server is unreachable or fails all requests. wellSince is since
// when everything has been working, or zero while it is not.
type outage struct{ since, wellSince time.Time }

const (
	// steady is how long everything has to work before an outage ends: a server that comes and goes counts as gone.
	steady = 2 * time.Second
	// breaksEvery is how often connections that broke and were restored at once are shown.
	breaksEvery = time.Minute
)

// ofServer reports whether a failure for this reason concerns the server as a whole rather than one resource.
func ofServer(r reflector.Reason) bool {
	switch r {
	case reflector.Refused, reflector.DNS, reflector.Network, reflector.Timeout, reflector.TooManyRequests, reflector.Server,
		reflector.Certificate, reflector.Unauthorized:
		return true
	default:
		return false
	}
}

// ofResource reports whether the reason why a resource cannot be followed concerns that resource,
// or has to be resolved by the user. A server that is unreachable may come back, and then so does
// the resource.
func ofResource(err error) bool {
	failure, ok := errors.AsType[*reflector.Error](err)
	if !ok {
		return true
	}
	r := failure.Reason
	return !ofServer(r) || r == reflector.Certificate || r == reflector.Unauthorized
}

// checkServer shows once when the server goes away, however many lists and watches fail and are
// retried, and once when all of them continue.
func (t *tail) checkServer(observations []observation) error {
	failing, well, broken := t.summarize(observations)
	switch {
	case t.server.outage != nil:
		return t.checkOutage(observations, failing == nil && well)
	case failing != nil:
		t.server.outage, t.server.stale = &outage{since: failing.When}, false
		return t.serverStatus(news.Outage, t.explainOutage(failing)+"; retrying")
	case broken && well:
		return t.checkBreak(observations)
	default:
		return t.checkStale(observations)
	}
}

// checkOutage ends an outage after everything has been working for a while.
func (t *tail) checkOutage(observations []observation, well bool) error {
	out := t.server.outage
	switch {
	case !well:
		out.wellSince = time.Time{}
		return nil
	case out.wellSince.IsZero():
		out.wellSince = time.Now()
	}
	if time.Since(out.wellSince) < steady {
		return nil
	}
	t.server.outage = nil
	return t.serverStatus(news.Recovered, "the server answers again after "+roughly(out.wellSince.Sub(out.since))+t.resume(observations))
}

// checkBreak shows connections that broke and were restored between two polls.
func (t *tail) checkBreak(observations []observation) error {
	t.resume(observations)
	t.server.breaks++
	if time.Since(t.server.breaksShown) < breaksEvery {
		return nil
	}
	message := "the connection broke and was restored at once"
	if t.server.breaks > 1 {
		message = fmt.Sprintf("the connection broke %d times and was restored at once", t.server.breaks)
	}
	t.server.breaks, t.server.breaksShown = 0, time.Now()
	return t.serverStatus(news.Reconnected, message)
}

// summarize returns an ongoing failure of the server, whether everything that can continue does,
// and whether a connection has broken since the last poll.
func (t *tail) summarize(observations []observation) (failing *reflector.Error, well, broken bool) {
	well = true
	for i, f := range t.follows {
		o := observations[i]
		if f.missing != "" {
			continue
		}
		if o.failure != nil && ofServer(o.failure.Reason) && failing == nil {
			failing = o.failure
		}
		if f.synced {
			well = well && (o.watching || o.failure != nil && !ofServer(o.failure.Reason) && o.failure.Reason != reflector.Expired)
			broken = broken || o.errors > f.shown.errors && f.failing == "" && o.failure == nil && o.relists == f.shown.relists
		}
	}
	return failing, well, broken
}

// resume records the state of the lists and watches after an outage, and names those that had to start over.
func (t *tail) resume(observations []observation) string {
	var relisted []string
	synced := 0
	for i, f := range t.follows {
		o := observations[i]
		if !f.synced {
			continue
		}
		synced++
		if o.relists > f.shown.relists {
			relisted = append(relisted, f.where())
		}
		f.shown = o.counters
	}
	switch len(relisted) {
	case 0:
		return ""
	case synced:
		return "; everything was relisted, and missed changes have been shown"
	default:
		return "; missed changes have been shown, after relisting " + strings.Join(relisted, ", ")
	}
}

// checkStale shows when the server has sent nothing for a long time although no connection has broken.
func (t *tail) checkStale(observations []observation) error {
	stale, age := false, time.Duration(0)
	for i, f := range t.follows {
		if f.synced && observations[i].stale && observations[i].failure == nil {
			stale, age = true, max(age, observations[i].age)
		}
	}
	if stale == t.server.stale {
		return nil
	}
	t.server.stale = stale
	if !stale {
		return t.serverStatus(news.Recovered, "the server has sent something again")
	}
	return t.serverStatus(news.Stale, fmt.Sprintf("the server has sent nothing for %s; what is shown may be stale", age.Round(time.Second)))
}

// explainOutage says what is wrong with the server. If it answers some requests, the message names the resource.
func (t *tail) explainOutage(failure *reflector.Error) string {
	text := redact.Error(failure.Resource.GroupResource(), failure)
	switch failure.Reason {
	case reflector.TooManyRequests, reflector.Server, reflector.Timeout:
		return text
	case reflector.Network:
		return "the connection broke: " + rootCause(failure).Error()
	default:
		return strings.TrimPrefix(text, failure.Name+": ")
	}
}

// rootCause returns the error at the bottom of the chain.
func rootCause(err error) error {
	for {
		below := errors.Unwrap(err)
		if below == nil {
			return err
		}
		err = below
	}
}

func roughly(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func (t *tail) serverStatus(kind news.StatusKind, message string) error {
	return t.status(t.ctx, news.Status{Time: time.Now(), Kind: kind, Message: message})
}
