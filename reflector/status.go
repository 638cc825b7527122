package reflector

import (
	"strconv"
	"sync/atomic"
	"time"
)

// Status is what a reflector is doing at one moment. The counts only grow. The fields are read one after the other,
// so they need not be of exactly the same moment. Times carry a monotonic clock reading: changes of the wall clock do not
// affect how long ago they were.
type Status struct {
	Phase Phase
	// WatchList tells that the collection is got by WatchList, not by paged lists.
	WatchList bool
	// ResourceVersion is the newest version that the sink has got.
	ResourceVersion string
	// Gathered is the number of objects that the running list has brought so far, or that the last one had.
	Gathered int

	// The counters of what is handed to the sink are increased before the sink gets it. Lists counts collections, Relists
	// those of them that followed an earlier one. Rewrites counts how often the server's history was found to be rewritten.
	Lists, Relists, Rewrites uint64
	// Watches counts the watches that the server has opened, Stalls those that were given up because they had gone silent.
	Watches, Stalls uint64
	// Events counts the changes handed to the sink, Bookmarks the bookmarks, Invalid the events and items that could
	// not be understood.
	Events, Bookmarks, Invalid uint64
	// Panics counts the panics that were recovered in what the reflector calls.
	Panics uint64
	// Errors counts failed requests and streams, Failures those since it last went well.
	Errors   uint64
	Failures int
	// Problem is what is wrong now: the last failure, until a request of the same kind succeeds; nil when all is well.
	Problem *Error
	// LastError is the last failure, or nil; it stays when things go well again.
	LastError *Error
	// Skipped names the first of the objects, by key, whose present state could not be decoded, and SkippedTotal counts
	// all of them. The sink holds their last known states.
	Skipped      []Skipped
	SkippedTotal int
	// LostEvents is set while the sink misses events that could be of any object, until the next list. SkippedTotal and
	// LostEvents hold for the sink's contents at ResourceVersion.
	LostEvents bool

	// LastContact is when the server was last heard of: an answer that is no error, an event, a bookmark or a clean close.
	LastContact time.Time
	// AskedAt is when the request was sent that the server has not answered; zero if there is none.
	AskedAt time.Time
	// SyncedSince is when the sink first held a whole collection; zero before.
	SyncedSince time.Time
	// NextRetry is when the machine goes on; zero unless it is backing off.
	NextRetry time.Time
}

// Phase tells the state of the machine, as Status does.
func (r *Reflector[T]) Phase() Phase { return Phase(r.status.phase.Load()) }

// Status tells what the reflector is doing. It may be called from any goroutine and takes no lock.
func (r *Reflector[T]) Status() Status {
	s := &r.status
	st := Status{
		Phase: Phase(s.phase.Load()), WatchList: !s.paged.Load(), ResourceVersion: s.version.load(), Gathered: int(s.gathered.Load()),
		Lists: s.lists.Load(), Relists: s.relists.Load(), Rewrites: s.rewrites.Load(), Watches: s.watches.Load(), Stalls: s.stalls.Load(),
		Events: s.events.Load(), Bookmarks: s.bookmarks.Load(), Invalid: s.invalid.Load(), Panics: s.panics.Load(),
		Errors: s.errors.Load(), Failures: int(s.failures.Load()), Problem: s.problem.Load(), LastError: s.lastError.Load(),
		LastContact: s.get(&s.contact), AskedAt: s.get(&s.asked), SyncedSince: s.get(&s.synced), NextRetry: s.get(&s.retryAt),
	}
	st.LostEvents = s.lost.Load() // after the version, which is stored later
	if skipped := s.skipped.Load(); skipped != nil {
		st.Skipped, st.SkippedTotal = skipped.named, skipped.total
	}
	if at := s.get(&s.proves); !at.IsZero() && !time.Now().Before(at) {
		st.Problem, st.Failures = nil, 0
	}
	return st
}

// counters is the state behind Status. Only the reflector's goroutine writes to it.
type counters struct {
	epoch time.Time // moments count from here

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
	reached                    atomic.Bool // an API server has answered once

	contact, asked, synced, retryAt moment
	// proves is when the open watch will have shown that it works, where those before it did not.
	proves moment
}

type skippedStatus struct {
	named []Skipped
	total int
}

// moment is a time that can be stored without allocating: the nanoseconds after the epoch by the monotonic clock, and one
// more. 0 is the zero time.
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

// version is a resource version that can be stored without allocating as long as it is a number, which those
// of nearly all servers are.
type version struct {
	number atomic.Uint64
	text   atomic.Pointer[string] // set if the version is not a plain number
}

func (v *version) store(s string) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || s[0] == '0' {
		text := s // only here, so that only this one is on the heap
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
