package reflector

import (
	"strconv"
	"sync/atomic"
	"time"
)

// Status is a reflector's state at one moment. The fields are read one after the other, so they
// need not be from exactly the same moment. Times carry a monotonic clock reading, so changes of
// the wall clock do not affect how long ago they were.
type Status struct {
	Phase Phase
	// WatchList is set if the collection is fetched with WatchLists, not with paged lists.
	WatchList bool
	// ResourceVersion is the newest version that the sink has got.
	ResourceVersion string
	// Gathered is the number of objects that the running list has delivered so far, or that the last one had.
	Gathered int

	// Counters only grow. Those of data for the sink are increased before the sink gets them. Lists
	// counts collections, Relists all of these but the first. Rewrites counts how often the
	// server's history was found to be rewritten.
	Lists, Relists, Rewrites uint64
	// Watches counts the opened watches, Stalls those that were abandoned because they had gone silent.
	Watches, Stalls uint64
	// Events counts the changes handed to the sink, Bookmarks the bookmarks, Invalid the events and items that could
	// not be decoded.
	Events, Bookmarks, Invalid uint64
	// Panics counts recovered panics in functions that the reflector calls.
	Panics uint64
	// Errors counts failed requests and streams, Failures the present consecutive ones.
	Errors   uint64
	Failures int
	// Problem is the present problem: the last failure, until a request of the same kind succeeds;
	// nil if there is none.
	Problem *Error
	// LastError is the last failure, or nil; it is kept after recovery.
	LastError *Error
	// Skipped holds the first, by key, of the objects whose present state could not be decoded, and
	// SkippedTotal is the number of all of them. The sink keeps their last known states.
	Skipped      []Skipped
	SkippedTotal int
	// UnprovenVersions is set if Options.Source says that it does not number states, and once the server
	// has sent a list that is older than objects in it, so that its lists' versions prove nothing. The sink
	// must then take each list as it is, whatever the versions of its objects.
	UnprovenVersions bool
	// LostEvents is set while the sink is missing events whose objects cannot be identified, until
	// the next list. SkippedTotal and LostEvents apply to the sink's contents at ResourceVersion.
	LostEvents bool

	// ServerVersion is the oldest version that a check has shown the server to have and that the
	// sink has not reached since BehindSince, the time of that check; both are zero if there is
	// none. A check precedes a watch after an outage or a long silence. That the server responds to
	// it does not mean that the watch delivers anything.
	ServerVersion string
	BehindSince   time.Time

	// LastContact is when the server was last heard from: a successful response, an event, a bookmark or a clean close.
	LastContact time.Time
	// AskedAt is when the outstanding request was sent; zero if there is none.
	AskedAt time.Time
	// SyncedSince is when the sink first held a complete collection; zero before.
	SyncedSince time.Time
	// NextRetry is when the present backoff ends; zero if there is none.
	NextRetry time.Time
}

// Phase returns the state of the machine, like Status.
func (r *Reflector[T]) Phase() Phase { return Phase(r.status.phase.Load()) }

// Status returns the reflector's status. It may be called from any goroutine and takes no lock.
func (r *Reflector[T]) Status() Status {
	s := &r.status
	st := Status{
		Phase: Phase(s.phase.Load()), WatchList: !s.paged.Load(), ResourceVersion: s.version.load(), Gathered: int(s.gathered.Load()),
		Lists: s.lists.Load(), Relists: s.relists.Load(), Rewrites: s.rewrites.Load(), Watches: s.watches.Load(), Stalls: s.stalls.Load(),
		Events: s.events.Load(), Bookmarks: s.bookmarks.Load(), Invalid: s.invalid.Load(), Panics: s.panics.Load(),
		Errors: s.errors.Load(), Failures: int(s.failures.Load()), Problem: s.problem.Load(), LastError: s.lastError.Load(),
		LastContact: s.get(&s.lastContact), AskedAt: s.get(&s.askedAt), SyncedSince: s.get(&s.synced), NextRetry: s.get(&s.retryAt),
	}
	st.UnprovenVersions = s.unproven.Load()
	behind := s.lead.oldest()
	st.ServerVersion, st.BehindSince = behind.version, behind.at
	st.LostEvents = s.lost.Load() // loaded after the version because it is stored before it
	if skipped := s.skipped.Load(); skipped != nil {
		st.Skipped, st.SkippedTotal = skipped.named, len(skipped.all)
	}
	if at := s.get(&s.provenAt); !at.IsZero() && !time.Now().Before(at) {
		st.Problem, st.Failures = nil, 0
	}
	return st
}

// counters is the state behind Status. Only the reflector's goroutine writes to it.
type counters struct {
	epoch time.Time // the reference of moments

	phase                      atomic.Uint32
	paged                      atomic.Bool
	version                    version
	gathered                   atomic.Int64
	lists, relists, rewrites   atomic.Uint64
	watches, stalls            atomic.Uint64
	events, bookmarks, invalid atomic.Uint64
	panics, errors             atomic.Uint64
	failures                   atomic.Int64
	problem, lastError         atomic.Pointer[Error]
	skipped                    atomic.Pointer[skippedStatus]
	lost                       atomic.Bool
	lead                       lead
	unproven                   atomic.Bool
	reached                    atomic.Bool // an API server has responded at least once

	lastContact, askedAt, synced, retryAt moment
	// provenAt is when the open watch will count as working, if watches before it failed.
	provenAt moment
}

// moment is a time that can be stored without allocating: nanoseconds since the epoch by the monotonic clock, plus
// one. 0 is the zero time.
type moment struct{ nanos atomic.Int64 }

func (c *counters) set(m *moment, t time.Time) { m.nanos.Store(int64(t.Sub(c.epoch)) + 1) }

func (c *counters) get(m *moment) time.Time {
	nanos := m.nanos.Load()
	if nanos == 0 {
		return time.Time{}
	}
	return c.epoch.Add(time.Duration(nanos - 1))
}

func (m *moment) clear() { m.nanos.Store(0) }

func (m *moment) isSet() bool { return m.nanos.Load() != 0 }

// version is a resource version that can be stored without allocating if it is a number, as with
// nearly all servers.
type version struct {
	number atomic.Uint64
	text   atomic.Pointer[string] // set if the version is not a plain number
}

func (v *version) store(s string) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || s[0] == '0' {
		text := s // so that s itself does not escape to the heap
		v.text.Store(&text)
		return
	}
	v.number.Store(n)
	if v.text.Load() != nil {
		v.text.Store(nil)
	}
}

func (v *version) load() string {
	if text := v.text.Load(); text != nil {
		return *text
	}
	if n := v.number.Load(); n != 0 {
		return strconv.FormatUint(n, 10)
	}
	return ""
}
