package tidingstest

import (
	"fmt"
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

// Kinds returns what the fault does, in a few words each; nothing for the zero value. Amounts and times are left out.
func (f Fault) Kinds() (kinds []string) {
	for _, k := range []struct {
		set  bool
		kind string
	}{
		{f.Delay > 0, "delayed answer"},
		{f.HangUp, "connection broken before the answer"},
		{f.Answer != nil, "answer of a proxy"},
		{f.Applied, "write carried out although its answer says otherwise"},
		{f.Gzip, "compressed in pieces"},
		{f.Drip > 0, "slow drip"},
		{f.CutAfterBytes > 0, "connection broken inside an answer"},
		{f.Lag > 0, "stale replica"},
		{len(f.Items) > 0, "items added to a list"},
		{f.NoInitialEventsEnd, "no end of the initial events"},
		{f.NoBookmarks, "no bookmarks"},
		{f.Duplicate, "duplicated events"},
		{f.Reorder, "reordered events"},
	} {
		if k.set {
			kinds = append(kinds, k.kind)
		}
	}
	if f.Err != nil {
		kinds = append(kinds, fmt.Sprint("answer ", f.Err.Status().Code))
	}
	for _, e := range f.Events {
		kinds = append(kinds, e.kind())
	}
	return append(kinds, endings[f.End]...)
}

func (f Fault) concerns(r Request) bool { return f.Resource == "" || f.Resource == r.Resource.Resource }

// endings has the kinds of what ends a watch.
var endings = map[Ending][]string{
	Close: {"watch closed"}, Cut: {"watch cut between frames"}, Stall: {"silence"}, CutInside: {"watch cut inside a frame"}, Truncate: {"truncated frame"},
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

func (e RawEvent) kind() string {
	status, isStatus := e.Object.(*metav1.Status)
	switch {
	case e.Giant > 0:
		return "giant frame"
	case e.Raw != nil:
		return "garbage"
	case isStatus:
		return fmt.Sprint("error event ", status.Code)
	default:
		return "event made up"
	}
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

// Inject schedules faults: the next requests of this kind take one each, in this order.
func (s *Server) Inject(kind RequestKind, faults ...Fault) {
	s.faults.inject(kind, faults)
}

// InjectAlways makes every request of this kind take the fault, after those of Inject are used up, until ClearFaults.
func (s *Server) InjectAlways(kind RequestKind, fault Fault) {
	s.faults.injectUntil(time.Time{}, kind, fault)
}

// InjectFor is InjectAlways for a limited time from now.
func (s *Server) InjectFor(d time.Duration, kind RequestKind, fault Fault) {
	s.faults.injectUntil(time.Now().Add(d), kind, fault)
}

// FaultCounts returns how many faults of each kind requests have had (Fault.Kinds), and how many incidents there were. A
// test that depends on a fault can see whether it came to pass.
func (s *Server) FaultCounts() map[string]int { return s.faults.counted() }

// ClearFaults forgets all faults that have not been taken, random ones included.
func (s *Server) ClearFaults() { s.faults.clear() }
