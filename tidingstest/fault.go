package tidingstest

import (
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Fault changes the answer to one request. Its fields combine where that makes sense; the zero value changes
// nothing, so it stands for a request that goes well between others that do not.
type Fault struct {
	// Resource limits the fault to requests for one resource by its plural, such as "pods"; empty means any.
	Resource string

	// Delay waits before anything is answered.
	Delay time.Duration
	// HangUp breaks the connection without an answer.
	HangUp bool
	// Err is answered instead, with its status code and, if it says when to retry, a Retry-After header.
	// The constructors of apierrors make such values.
	Err apierrors.APIStatus
	// Answer is sent instead, as it is.
	Answer *Answer
	// Applied carries out a write although HangUp, Err or Answer tells the client otherwise: the answer got lost.
	Applied bool

	// Gzip compresses the answer, for a client that accepts it. Each event of a watch is a member of its own. Go's HTTP
	// client cannot close a compressed body while another goroutine waits for its next bytes: cancel the context of such a
	// watch before you stop it.
	Gzip bool
	// Drip sends the body a few bytes at a time, this far apart. With Gzip that cuts the compressed bytes to pieces.
	Drip time.Duration
	// CutAfterBytes breaks the connection when this many bytes of the body have been sent; 0 means never.
	CutAfterBytes int
	// Lag answers a read as a replica does that has not seen the newest changes: this many of them, of all resources.
	Lag int

	// Items are added to what a list holds, without any check.
	Items []runtime.Object

	// Events are sent by a watch as soon as After allows it, without any check.
	Events []RawEvent
	// After is how many regular events (bookmarks included) the watch sends before Events and End take effect.
	After int
	// End is what happens to the watch then.
	End Ending
	// NoInitialEventsEnd leaves out the bookmark that ends the initial events, and NoBookmarks all of them.
	NoInitialEventsEnd, NoBookmarks bool
	// Duplicate sends every event of a watch twice; Reorder exchanges each event but bookmarks with the next.
	Duplicate, Reorder bool
}

// Answer is a complete HTTP answer.
type Answer struct {
	Code        int
	ContentType string
	Body        []byte
}

// RawEvent is an event that the test makes up. With Raw set it is just these bytes, with Giant a frame of this many bytes;
// else Type and Object are encoded as the watch's other events are. An ERROR event has a *metav1.Status as its object
// (ErrorEvent).
type RawEvent struct {
	Type   watch.EventType
	Object runtime.Object
	Raw    []byte
	Giant  int
}

// ErrorEvent returns the ERROR event that carries err.
func ErrorEvent(err apierrors.APIStatus) RawEvent {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return RawEvent{Type: watch.Error, Object: &status}
}

// Ending says how a watch ends.
type Ending int

const (
	// GoOn does not end the watch.
	GoOn Ending = iota
	// Close ends the body cleanly.
	Close
	// Cut breaks the connection.
	Cut
	// Stall keeps the connection open and sends nothing more, not even bookmarks.
	Stall
	// CutInside breaks the connection in the middle of the next event.
	CutInside
	// Truncate ends the body cleanly in the middle of the next event.
	Truncate
)

// faultQueue holds the faults that wait for their requests.
type faultQueue struct {
	mu     sync.Mutex
	once   []scheduled
	always []scheduled
	random []*randomFaults
}

type scheduled struct {
	kind  RequestKind
	fault Fault
	until time.Time // zero for ever
}

func (s scheduled) fits(r Request) bool {
	return s.kind.includes(r.Kind) && (s.fault.Resource == "" || s.fault.Resource == r.Resource.Resource)
}

// take returns the fault for a request, and whether there is one.
func (q *faultQueue) take(r Request) (Fault, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	fits := func(s scheduled) bool { return s.fits(r) }
	if i := slices.IndexFunc(q.once, fits); i >= 0 {
		fault := q.once[i].fault
		q.once = slices.Delete(q.once, i, i+1)
		return fault, true
	}
	q.always = slices.DeleteFunc(q.always, func(s scheduled) bool { return !s.until.IsZero() && !time.Now().Before(s.until) })
	if i := slices.IndexFunc(q.always, fits); i >= 0 {
		return q.always[i].fault, true
	}
	for _, f := range q.random {
		if fault, ok := f.take(r); ok {
			return fault, true
		}
	}
	return Fault{}, false
}

func (q *faultQueue) update(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
}

// Inject schedules faults: the next requests of this kind take one each, in this order.
func (s *Server) Inject(kind RequestKind, faults ...Fault) {
	s.faults.update(func() {
		for _, f := range faults {
			s.faults.once = append(s.faults.once, scheduled{kind: kind, fault: f})
		}
	})
}

// InjectAlways makes every request of this kind take the fault, after those of Inject are used up, until ClearFaults.
func (s *Server) InjectAlways(kind RequestKind, fault Fault) {
	s.faults.update(func() { s.faults.always = append(s.faults.always, scheduled{kind: kind, fault: fault}) })
}

// InjectFor is InjectAlways for a limited time from now.
func (s *Server) InjectFor(d time.Duration, kind RequestKind, fault Fault) {
	until := time.Now().Add(d)
	s.faults.update(func() { s.faults.always = append(s.faults.always, scheduled{kind: kind, fault: fault, until: until}) })
}

// ClearFaults forgets all faults that have not been taken, random ones included.
func (s *Server) ClearFaults() {
	s.faults.update(func() { s.faults.once, s.faults.always, s.faults.random = nil, nil, nil })
}
