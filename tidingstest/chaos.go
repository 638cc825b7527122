package tidingstest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Chaos chooses faults at random from a seed. A request's fault depends only on the seed, the kind and resource of the
// request, and the number of earlier requests of that kind and resource, so that a run can be repeated.
type Chaos struct {
	Seed uint64
	// Share is the share of requests that get a fault, between 0 and 1; 0 means 0.1.
	Share float64
	// MaxDelay limits the delays that faults add, and the duration of an incident of Disturb; 0 means 2 seconds.
	MaxDelay time.Duration
	// Interval is the mean time between incidents of Disturb; 0 means 10 seconds.
	Interval time.Duration
	// Hostile adds what no correct server does: hanging forever, garbage, giant frames, and
	// duplicate or reordered events.
	Hostile bool
}

const (
	defaultShare    = 0.1
	defaultMaxDelay = 2 * time.Second
	defaultInterval = 10 * time.Second
)

func (c Chaos) withDefaults() Chaos {
	if c.Share == 0 {
		c.Share = defaultShare
	}
	if c.MaxDelay == 0 {
		c.MaxDelay = defaultMaxDelay
	}
	if c.Interval == 0 {
		c.Interval = defaultInterval
	}
	return c
}

// Fault returns the fault for the n-th request, counted from 0, of a kind and resource. ok is false
// if the request gets no fault.
func (c Chaos) Fault(kind RequestKind, resource schema.GroupVersionResource, n int) (fault Fault, ok bool) {
	c = c.withDefaults()
	random := c.random(kind, resource, n)
	if random.Float64() >= c.Share {
		return Fault{}, false
	}
	choices := append([]choice{}, anyFaults...)
	switch {
	case kind.writes():
		choices = append(choices, writeFaults...)
	case kind.watches():
		choices = append(choices, watchFaults...)
	default:
		choices = append(choices, readFaults...)
	}
	if c.Hostile && kind.watches() {
		choices = append(choices, hostileFaults...)
	}
	return choices[random.IntN(len(choices))](random, c), true
}

// random returns the random number generator for one request.
func (c Chaos) random(request ...any) *rand.Rand {
	hash := fnv.New64a()
	fmt.Fprintln(hash, request...)
	return rand.New(rand.NewPCG(c.Seed, hash.Sum64()))
}

// choice returns a random fault of one kind.
type choice func(*rand.Rand, Chaos) Fault

func delay(r *rand.Rand, c Chaos) time.Duration { return time.Duration(r.Int64N(int64(c.MaxDelay))) }

var errChaos = errors.New("chaos")

func randomError(r *rand.Rand) apierrors.APIStatus {
	resource := schema.GroupResource{Resource: "chaos"}
	switch r.IntN(6) {
	case 0:
		return apierrors.NewTooManyRequests("chaos", 1+r.IntN(2))
	case 1:
		return apierrors.NewInternalError(errChaos)
	case 2:
		return apierrors.NewServiceUnavailable("chaos")
	case 3:
		return apierrors.NewUnauthorized("chaos")
	case 4:
		return apierrors.NewForbidden(resource, "", errChaos)
	default:
		return apierrors.NewServerTimeout(resource, "chaos", 1)
	}
}

var anyFaults = []choice{
	func(r *rand.Rand, c Chaos) Fault { return Fault{Delay: delay(r, c)} },
	func(r *rand.Rand, c Chaos) Fault { return Fault{Delay: delay(r, c), HangUp: true} },
	func(r *rand.Rand, _ Chaos) Fault { return Fault{Err: randomError(r)} },
	func(r *rand.Rand, _ Chaos) Fault { return Fault{Err: randomError(r)} },
	func(r *rand.Rand, _ Chaos) Fault { return Fault{CutAfterBytes: 1 + r.IntN(2000)} },
	func(*rand.Rand, Chaos) Fault {
		return Fault{Answer: &Answer{Code: 502, ContentType: "text/html", Body: []byte("<html>bad gateway</html>")}}
	},
}

var writeFaults = []choice{
	func(*rand.Rand, Chaos) Fault { return Fault{HangUp: true, Applied: true} },
	func(r *rand.Rand, _ Chaos) Fault { return Fault{Err: randomError(r), Applied: true} },
	func(*rand.Rand, Chaos) Fault {
		return Fault{Err: apierrors.NewConflict(schema.GroupResource{Resource: "chaos"}, "", errChaos)}
	},
}

// Only reads are compressed: real servers do not compress watches, and stopping a compressed watch
// would block many clients (see Fault.Gzip).
var readFaults = []choice{
	func(*rand.Rand, Chaos) Fault { return Fault{Gzip: true} },
	func(r *rand.Rand, _ Chaos) Fault { return Fault{Gzip: true, CutAfterBytes: 1 + r.IntN(300)} },
	func(r *rand.Rand, _ Chaos) Fault { return Fault{Lag: 1 + r.IntN(20)} },
	func(r *rand.Rand, _ Chaos) Fault {
		return Fault{Drip: time.Millisecond, CutAfterBytes: 1 + r.IntN(5000)}
	},
	func(*rand.Rand, Chaos) Fault { return Fault{Err: apierrors.NewResourceExpired("chaos")} },
}

var watchFaults = []choice{
	func(r *rand.Rand, _ Chaos) Fault { return Fault{After: r.IntN(20), End: Close} },
	func(r *rand.Rand, _ Chaos) Fault { return Fault{After: r.IntN(20), End: Cut} },
	func(r *rand.Rand, _ Chaos) Fault { return Fault{After: r.IntN(20), End: CutInside} },
	func(r *rand.Rand, _ Chaos) Fault { return Fault{After: r.IntN(20), End: Truncate} },
	func(r *rand.Rand, _ Chaos) Fault {
		return Fault{After: r.IntN(20), Events: []RawEvent{ErrorEvent(randomError(r))}, End: Close}
	},
	func(r *rand.Rand, _ Chaos) Fault {
		return Fault{After: r.IntN(20), Events: []RawEvent{ErrorEvent(apierrors.NewResourceExpired("chaos"))}, End: Close}
	},
	func(r *rand.Rand, _ Chaos) Fault { return Fault{NoBookmarks: true, After: 1 + r.IntN(20), End: Close} },
	func(r *rand.Rand, _ Chaos) Fault {
		return Fault{NoInitialEventsEnd: true, After: 1 + r.IntN(20), End: Close}
	},
	func(r *rand.Rand, _ Chaos) Fault { return Fault{Lag: 1 + r.IntN(20), After: r.IntN(20), End: Cut} },
}

var hostileFaults = []choice{
	func(r *rand.Rand, _ Chaos) Fault { return Fault{After: r.IntN(20), End: Stall} },
	func(*rand.Rand, Chaos) Fault { return Fault{Duplicate: true} },
	func(*rand.Rand, Chaos) Fault { return Fault{Reorder: true} },
	func(r *rand.Rand, _ Chaos) Fault {
		return Fault{After: r.IntN(20), Events: []RawEvent{{Raw: []byte("\x00\x00\x00\x05garbage{]\n")}}, End: Close}
	},
	func(r *rand.Rand, _ Chaos) Fault {
		return Fault{After: r.IntN(20), Events: []RawEvent{{Giant: 17 << 20}}, End: Close}
	},
}

// InjectRandom gives requests of this kind random faults until ClearFaults. Faults of Inject and InjectAlways take
// precedence.
func (s *Server) InjectRandom(kind RequestKind, chaos Chaos) {
	s.faults.injectRandom(kind, func(r Request, n int) (Fault, bool) { return chaos.Fault(r.Kind, r.Resource, n) })
}
