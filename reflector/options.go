package reflector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// Sink receives what the reflector finds out. Its methods are called on the goroutine that runs the reflector, one at a
// time. Blocking in them is the way to slow the server down. A panic in them is recovered by Run, reported, and followed by
// a relist. A deltafifo.Queue is a Sink.
type Sink[T object.Object] interface {
	// Add brings changes in order, of type Added, Updated or Deleted, and the version that they bring the collection to;
	// without changes it is a bookmark. After a reconnect some may be older than what the sink holds: the sink drops
	// these. The slice is the sink's from then on.
	Add(deltas []object.Delta[T], resourceVersion string)
	// Replace says that at this version the collection is exactly these objects, in no particular order. Where a key comes
	// twice, the later one counts. A version older than one that was brought before says that the server's history was
	// rewritten: then every object counts as it is, however old its version. (Status.Rewrites has grown by then, also
	// where the new history has meanwhile overtaken the old one.) The objects are the sink's from then on.
	Replace(objects object.Collection[T], resourceVersion string)
}

// Options says what to reflect and how. All fields but Source and Sink may be left zero.
type Options[T object.Object] struct {
	Source source.ListerWatcher[T]
	Sink   Sink[T]
	// Previous returns the object that the sink holds under a key; see source.Previous. It may leave out some, and may be nil:
	// then nothing is reused.
	Previous source.Previous[T]
	// Decode decodes in the source's place; see source.Decode. It may be nil.
	Decode source.Decode[T]
	// Held is Previous that leaves out none: for objects that cannot be decoded, of which what is known is kept, and to find out whether the
	// server went back. Nil means Previous.
	Held source.Previous[T]
	// NewGatherer makes what keeps the objects of a list of about n. Nil keeps them as they are.
	NewGatherer func(n int) Gatherer[T]
	// NoSharing says that the sink writes to the objects it gets; see source.ListOptions.
	NoSharing bool

	// Resource is what Source serves. It is used for messages only.
	Resource schema.GroupVersionResource
	// Name begins every message; default: the resource and its group, such as "widgets.example.com".
	Name string
	// Logger gets the first failure, the first one for another reason, then one line a minute with the number of failures
	// since, and a line when it has recovered. A watch that is taken up again at once is logged at Debug only. Default: none.
	Logger *slog.Logger
	// OnError is told of every failure and everything that is skipped, on the goroutine that runs the reflector.
	OnError func(*Error)
	// Peers are shared with the other reflectors of the same server; nil if there are none.
	Peers *Peers

	// Resume is called before the first request and returns what the sink holds, if it holds anything: the reflector then
	// begins with a watch from there, once the server has shown that it has come as far and has the same history. An error
	// counts as a failed request, and is followed by another call. It may be nil.
	Resume func(ctx context.Context) (Contents, error)
	// OnResume is called when a watch was opened after Resume, and the sink has not had a list since. Recent is the server's
	// most recent version at the check before; "" if versions cannot be compared or the check was refused. The server may still
	// say on the watch that its version has expired. The context ends with the watch. It may be nil.
	OnResume func(watch context.Context, recent string)
	// DisableWatchList gets every collection by paged lists.
	DisableWatchList bool
	// PageSize is the number of objects that a page of a list may have; default 500.
	PageSize int64
	// WatchTimeout is the least time that the server is asked to keep a watch open; each watch asks for a random
	// time between it and its double, so that watches do not end together. Default 5 minutes.
	WatchTimeout time.Duration
	// StallTimeout is how long a list may bring nothing, and how much longer than its timeout a watch may stay
	// open, before it is given up. Default 90 seconds, since an API server gives up on a list after 60.
	StallTimeout time.Duration
	// Backoff spaces out the requests that follow failures.
	Backoff Backoff
	// Seed makes the random choices (backoff, watch timeouts) repeatable; 0 takes a random seed.
	Seed uint64
}

// Contents are what a sink holds before the reflector begins.
type Contents struct {
	// ResourceVersion is what they are current to. With "" and "0" the reflector begins with a list.
	ResourceVersion string
	// Newest is the key of the object that was changed last, if there are any. What the server has of it tells whether the
	// server was restored from a backup that did not have that change, and has come past the version since.
	Newest object.Key
	// List makes the reflector begin with a list all the same, which must not be older than ResourceVersion.
	List bool
}

// Backoff says how long to wait after failures: Min after the first, Factor times longer after each further one without
// progress in between, and each wait is stretched by a random part of up to Jitter of it. No wait is longer than Max. A
// server that does not answer and one that answers with errors have waits of their own. The defaults are 800 ms, 1.5, 30 s
// and 1: client-go's, but for the factor, which is 2 there and makes what is left of the last wait longer when an outage is over.
type Backoff struct {
	Min, Max time.Duration
	Factor   float64
	// Jitter of 1 stretches a wait to at most its double. Negative means none, also where requests are made at once.
	Jitter float64
}

const (
	defaultPageSize     = 500
	defaultWatchTimeout = 5 * time.Minute
	defaultStallTimeout = 90 * time.Second
)

// withDefaults returns the options with every zero field filled in, or says which one is wrong.
func (o Options[T]) withDefaults() (Options[T], error) {
	switch {
	case o.Source == nil:
		return o, errors.New("reflector: Options.Source is missing")
	case o.Sink == nil:
		return o, errors.New("reflector: Options.Sink is missing")
	case o.PageSize < 0 || o.WatchTimeout < 0 || o.StallTimeout < 0:
		return o, fmt.Errorf("reflector: PageSize %d, WatchTimeout %v, StallTimeout %v: none may be negative",
			o.PageSize, o.WatchTimeout, o.StallTimeout)
	}
	if o.Name == "" {
		o.Name = o.Resource.GroupResource().String()
	}
	if o.Held == nil {
		o.Held = o.Previous
	}
	if o.NewGatherer == nil {
		o.NewGatherer = newOpenGatherer[T]
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.OnError == nil {
		o.OnError = func(*Error) {}
	}
	orDefault(&o.PageSize, defaultPageSize)
	orDefault(&o.WatchTimeout, defaultWatchTimeout)
	orDefault(&o.StallTimeout, defaultStallTimeout)
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	var err error
	o.Backoff, err = o.Backoff.withDefaults()
	return o, err
}

func (b Backoff) withDefaults() (Backoff, error) {
	orDefault(&b.Min, 800*time.Millisecond)
	orDefault(&b.Max, max(30*time.Second, b.Min))
	orDefault(&b.Factor, 1.5)
	orDefault(&b.Jitter, 1)
	if b.Min < 0 || b.Max < b.Min || !(b.Factor >= 1) || math.IsNaN(b.Jitter) {
		return b, fmt.Errorf("reflector: Backoff needs 0 < Min ≤ Max and Factor ≥ 1, got %+v", b)
	}
	b.Jitter = max(b.Jitter, 0)
	return b, nil
}

func orDefault[V comparable](field *V, value V) {
	var zero V
	if *field == zero {
		*field = value
	}
}
