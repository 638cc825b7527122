package reflector

import (
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

// Sink receives the collection and its changes. Its methods are called on the goroutine that runs
// the reflector, one at a time. By blocking, they exert backpressure on the server. A panic in them
// is recovered by Run, reported, and followed by a relist. A deltafifo.Queue is a Sink.
type Sink[T object.Object] interface {
	// Add receives changes in order, of type Added, Updated or Deleted, and the version that they
	// bring the collection to; without changes it is a bookmark. After a reconnect some changes may
	// be older than what the sink holds, and the sink must drop these. The sink takes ownership of
	// the slice.
	Add(deltas []object.Delta[T], resourceVersion string)
	// Replace receives the complete collection at a version, in no particular order. If a key
	// occurs twice, the later object counts. A version older than an earlier one means that the
	// server's history was rewritten: the objects then count as they are, however old their
	// versions. (Status.Rewrites has been increased by then, even if the new history has passed the
	// old version already.) The sink takes ownership of the objects.
	Replace(objects object.Collection[T], resourceVersion string)
}

// Options configures a Reflector. All fields except Source and Sink are optional.
type Options[T object.Object] struct {
	// Source lists and watches. If it has a method Unnumbered() bool that returns true, it does not number states, as
	// fake clients do not: versions prove nothing from the start; see Status.UnprovenVersions.
	Source source.ListerWatcher[T]
	Sink   Sink[T]
	// Previous returns the object that the sink holds under a key; see source.Previous. It is also used to keep the
	// states of objects that cannot be decoded, and to find out whether the server went back in time. If it is nil,
	// nothing is reused.
	Previous source.Previous[T]
	// NoSharing says that the sink writes to the objects it gets; see source.ListOptions.
	NoSharing bool

	// Resource is the resource that Source serves. It is used in messages, by Peers, and to tell a
	// missing resource from a wrong address.
	Resource schema.GroupVersionResource
	// Name begins every message; the default is the resource and its group, such as "widgets.example.com".
	Name string
	// Logger receives the first failure, the first one for each other reason, then one line a
	// minute with the number of failures since, and a line on recovery. A watch that is resumed
	// immediately is only logged at Debug. Default: none.
	Logger *slog.Logger
	// OnError is called, on the goroutine that runs the reflector, for every failure and every skipped object or event.
	OnError func(*Error)
	// Peers is shared with the other reflectors of the same server; nil if there are none.
	Peers *Peers

	// DisableWatchList fetches every collection with paged lists.
	DisableWatchList bool
	// FirstFromCache makes the first list, if it is a paged one, take whatever state the server has in its cache, as
	// client-go's does. Servers before 1.34 read the most recent state, which is listed otherwise, from etcd. The
	// state in a cache may be older than what the program has seen before, until the watch has caught up.
	FirstFromCache bool
	// PageSize is the maximum number of objects in a page of a list; default 500.
	PageSize int64
	// WatchTimeout is the minimum time that the server is asked to keep a watch open; each watch requests a random
	// time between it and twice as much, so that watches do not end together. Default 5 minutes.
	WatchTimeout time.Duration
	// StallTimeout is how long a list may deliver nothing, and how much longer than its timeout a watch may stay
	// open, before it is abandoned. Default 90 seconds, since an API server gives up on a list after 60.
	StallTimeout time.Duration
	// Backoff is the delay before requests that follow failures.
	Backoff Backoff
	// Seed makes random choices (backoff, watch timeouts) repeatable; 0 means a random seed.
	Seed uint64
}

// Backoff says how long to wait after failures: Min after the first, Factor times longer after each
// further one without progress in between, and each wait is extended by a random part of up to
// Jitter times the wait. No wait is longer than Max, except that a missing permission is asked for
// again after at most twice as long, and that a server's Retry-After is obeyed. Servers that do not
// respond and servers that respond with errors are backed off separately. The defaults are 800 ms,
// 1.5, 30 s and 1: those of client-go, except that its factor of 2 leaves a longer remaining wait
// when an outage is over.
type Backoff struct {
	Min, Max time.Duration
	Factor   float64
	// Jitter of 1 extends a wait to at most twice its length. Negative means none, also for immediate retries.
	Jitter float64
}

const (
	defaultPageSize     = 500
	defaultWatchTimeout = 5 * time.Minute
	defaultStallTimeout = 90 * time.Second
)

// withDefaults returns the options with defaults filled in, or an error that says which one is invalid.
func (o Options[T]) withDefaults() (Options[T], error) {
	switch {
	case o.Source == nil:
		return o, errors.New("reflector: Options.Source is missing")
	case o.PageSize < 0 || o.WatchTimeout < 0 || o.StallTimeout < 0:
		return o, fmt.Errorf("reflector: PageSize %d, WatchTimeout %v, StallTimeout %v: none may be negative",
			o.PageSize, o.WatchTimeout, o.StallTimeout)
	}
	if o.Name == "" {
		o.Name = o.Resource.GroupResource().String()
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
