package tidingstest

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Fault changes the response to one request. Its fields combine where that makes sense. The zero
// value changes nothing, so it stands for a request without a fault in a sequence of faults.
type Fault struct {
	// Resource limits the fault to requests for one resource, given by its plural, such as "pods"; empty means any.
	Resource string

	// Delay delays the response.
	Delay time.Duration
	// HangUp breaks the connection without a response.
	HangUp bool
	// Err is the response, with its status code and, if it says when to retry, a Retry-After
	// header. The constructors of apierrors return such values.
	Err apierrors.APIStatus
	// Answer is the response, sent as is.
	Answer *Answer
	// Applied carries out a write although HangUp, Err or Answer tells the client otherwise, as if
	// the response had been lost.
	Applied bool

	// Gzip compresses the response if the client accepts that. Each event of a watch is a gzip
	// member of its own. Go's HTTP client cannot close a compressed body while another goroutine is
	// reading from it: cancel the context of such a watch before you stop it.
	Gzip bool
	// Drip sends the body a few bytes at a time, at this interval. With Gzip that splits the compressed bytes.
	Drip time.Duration
	// CutAfterBytes breaks the connection after this many bytes of the body; 0 means never.
	CutAfterBytes int
	// Lag answers a read like a replica that is this many changes behind, counted over all resources.
	Lag int

	// Items are added to the items of a list, without any check.
	Items []runtime.Object

	// Events are sent by a watch as soon as After allows, without any check.
	Events []RawEvent
	// After is the number of regular events, including bookmarks, that the watch sends before
	// Events and End take effect.
	After int
	// End is how the watch ends then.
	End Ending
	// NoInitialEventsEnd omits the bookmark that ends the initial events, and NoBookmarks omits all bookmarks.
	NoInitialEventsEnd, NoBookmarks bool
	// Duplicate sends every event of a watch twice. Reorder swaps each event other than a bookmark with the next.
	Duplicate, Reorder bool
}

// Kinds returns what the fault does, in a few words each, without amounts and durations. It returns
// nothing for the zero value.
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

// endings has the kinds of faults that end a watch.
var endings = map[Ending][]string{
	Close: {"watch closed"}, Cut: {"watch cut between frames"}, Stall: {"silence"}, CutInside: {"watch cut inside a frame"}, Truncate: {"truncated frame"},
}

// Answer is a complete HTTP answer.
type Answer struct {
	Code        int
	ContentType string
	Body        []byte
}

// RawEvent is an event made up by the test. If Raw is set, it consists of just these bytes; if
// Giant is set, it is a frame of that many bytes. Otherwise Type and Object are encoded like the
// watch's other events. An ERROR event has a *metav1.Status as its object (ErrorEvent).
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

// ErrorEvent returns an ERROR event that carries err.
func ErrorEvent(err apierrors.APIStatus) RawEvent {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return RawEvent{Type: watch.Error, Object: &status}
}

// Ending is how a watch ends.
type Ending int

const (
	// GoOn does not end the watch.
	GoOn Ending = iota
	// Close ends the body cleanly.
	Close
	// Cut breaks the connection.
	Cut
	// Stall keeps the connection open but sends nothing more, not even bookmarks.
	Stall
	// CutInside breaks the connection in the middle of the next event.
	CutInside
	// Truncate ends the body cleanly in the middle of the next event.
	Truncate
)

// Inject schedules faults: each of the next requests of this kind takes one, in order.
func (s *Server) Inject(kind RequestKind, faults ...Fault) {
	s.faults.inject(kind, faults)
}

// InjectAlways gives the fault to every request of this kind until ClearFaults. Faults of Inject are taken first.
func (s *Server) InjectAlways(kind RequestKind, fault Fault) {
	s.faults.injectUntil(time.Time{}, kind, fault)
}

// InjectFor is like InjectAlways, for a limited time from now on.
func (s *Server) InjectFor(d time.Duration, kind RequestKind, fault Fault) {
	s.faults.injectUntil(time.Now().Add(d), kind, fault)
}

// FaultCounts returns the number of faults that requests have had, by kind (Fault.Kinds), and the
// number of incidents. A test that depends on a fault can check that it has occurred.
func (s *Server) FaultCounts() map[string]int { return s.faults.counted() }

// ClearFaults removes all faults that have not been taken, including random ones.
func (s *Server) ClearFaults() { s.faults.clear() }
