package reflector

import (
	"strconv"
	"sync/atomic"
	"time"
)

// Status is what a reflector is doing at one moment. The counts only grow. The fields are read one after the other,
// so they need not be of exactly the same moment.
type Status struct {
	Phase Phase
	// WatchList tells that the collection is got by WatchList, not by paged lists.
	WatchList bool
	// ResourceVersion is the newest version that the sink has got.
	ResourceVersion string
	// Gathered is the number of objects that the running list has brought so far, or that the last one had.
	Gathered int

	// Lists counts collections handed to the sink, Relists those of them that followed an earlier one.
	Lists, Relists uint64
	// Watches counts the watches that the server has opened.
	Watches uint64
	// Events counts the changes handed to the sink, Bookmarks the bookmarks, Invalid the events that could
	// not be understood.
	Events, Bookmarks, Invalid uint64
	// Errors counts failed requests and streams, Failures those since it last went well.
	Errors   uint64
	Failures int
	// LastError is the last of them, or nil; it stays when things go well again.
	LastError *Error

	// LastContact is when the server was last heard of: an answer, an event, a bookmark or a clean close.
	LastContact time.Time
	// SyncedSince is when the sink first held a whole collection; zero before.
	SyncedSince time.Time
	// NextRetry is when the machine goes on; zero unless it is backing off.
	NextRetry time.Time
}

// Status tells what the reflector is doing. It may be called from any goroutine and takes no lock.
func (r *Reflector[T]) Status() Status {
	s := &r.status
	return Status{
		Phase: Phase(s.phase.Load()), WatchList: !s.paged.Load(), ResourceVersion: s.version.load(), Gathered: int(s.gathered.Load()),
		Lists: s.lists.Load(), Relists: s.relists.Load(), Watches: s.watches.Load(),
		Events: s.events.Load(), Bookmarks: s.bookmarks.Load(), Invalid: s.invalid.Load(),
		Errors: s.errors.Load(), Failures: int(s.failures.Load()), LastError: s.lastError.Load(),
		LastContact: s.contact.load(), SyncedSince: s.synced.load(), NextRetry: s.retry.load(),
	}
}

// counters is the state behind Status. Only the reflector's goroutine writes to it.
type counters struct {
	phase                      atomic.Uint32
	paged                      atomic.Bool
	version                    version
	gathered                   atomic.Int64
	lists, relists, watches    atomic.Uint64
	events, bookmarks, invalid atomic.Uint64
	errors                     atomic.Uint64
	failures                   atomic.Int64
	lastError                  atomic.Pointer[Error]
	contact, synced, retry     moment
}

// moment is a time.Time that can be stored without allocating. 0 is the zero time.
type moment struct{ nanos atomic.Int64 }

func (m *moment) store(t time.Time) { m.nanos.Store(t.UnixNano()) }

func (m *moment) clear() { m.nanos.Store(0) }

func (m *moment) load() time.Time {
	nanos := m.nanos.Load()
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

// version is a resource version that can be stored without allocating as long as it is a number, which those
// of nearly all servers are.
type version struct {
	number atomic.Uint64
	text   atomic.Pointer[string] // set if the version is not a plain number
}

func (v *version) store(s string) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 || s[0] == '0' || s[0] == '+' {
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
