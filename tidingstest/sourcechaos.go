package tidingstest

import (
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// SourceFault returns the fault for the n-th request of a kind, counted from 0, to a FaultySource.
// ok is false if the request gets no fault.
func (c Chaos) SourceFault(kind RequestKind, n int) (fault SourceFault, ok bool) {
	c = c.withDefaults()
	random := c.random(kind, n)
	if random.Float64() >= c.Share {
		return SourceFault{}, false
	}
	choices := slices.Concat(anySourceFaults, listSourceFaults)
	if kind.watches() {
		choices = slices.Concat(anySourceFaults, watchSourceFaults)
	}
	if c.Hostile && kind.watches() {
		choices = append(choices, hostileSourceFaults...)
	}
	return choices[random.IntN(len(choices))](random, c), true
}

// sourceChoice returns a random source fault of one kind.
type sourceChoice func(*rand.Rand, Chaos) SourceFault

var anySourceFaults = []sourceChoice{
	func(r *rand.Rand, c Chaos) SourceFault { return SourceFault{Delay: delay(r, c)} },
	func(r *rand.Rand, c Chaos) SourceFault {
		return SourceFault{Delay: delay(r, c), Err: io.ErrUnexpectedEOF}
	},
	func(*rand.Rand, Chaos) SourceFault { return SourceFault{Err: syscall.ECONNREFUSED} },
	func(r *rand.Rand, _ Chaos) SourceFault { return SourceFault{Err: statusError(randomError(r))} },
	func(r *rand.Rand, _ Chaos) SourceFault { return SourceFault{Err: statusError(randomError(r))} },
	func(*rand.Rand, Chaos) SourceFault { return SourceFault{Err: apierrors.NewResourceExpired("chaos")} },
	func(r *rand.Rand, _ Chaos) SourceFault { return SourceFault{After: r.IntN(20), End: Cut} },
	func(r *rand.Rand, _ Chaos) SourceFault { return SourceFault{Lag: 1 + r.IntN(20)} },
	func(r *rand.Rand, _ Chaos) SourceFault {
		return SourceFault{Drip: time.Millisecond, After: r.IntN(50), End: Cut}
	},
}

var listSourceFaults = []sourceChoice{
	func(r *rand.Rand, _ Chaos) SourceFault {
		return SourceFault{After: r.IntN(20), EndErr: statusError(randomError(r))}
	},
}

var watchSourceFaults = []sourceChoice{
	func(r *rand.Rand, _ Chaos) SourceFault { return SourceFault{After: r.IntN(20), End: Close} },
	func(r *rand.Rand, _ Chaos) SourceFault {
		return SourceFault{After: r.IntN(20), EndErr: statusError(randomError(r))}
	},
	func(r *rand.Rand, _ Chaos) SourceFault {
		return SourceFault{After: r.IntN(20), EndErr: apierrors.NewResourceExpired("chaos")}
	},
	func(r *rand.Rand, _ Chaos) SourceFault {
		return SourceFault{NoBookmarks: true, After: 1 + r.IntN(20), End: Close}
	},
	func(r *rand.Rand, _ Chaos) SourceFault {
		return SourceFault{NoInitialEventsEnd: true, After: 1 + r.IntN(20), End: Close}
	},
	func(r *rand.Rand, _ Chaos) SourceFault {
		return SourceFault{Lag: 1 + r.IntN(20), After: r.IntN(20), End: Cut}
	},
}

var hostileSourceFaults = []sourceChoice{
	func(r *rand.Rand, _ Chaos) SourceFault { return SourceFault{After: r.IntN(20), End: Stall} },
	func(*rand.Rand, Chaos) SourceFault { return SourceFault{Duplicate: true} },
	func(*rand.Rand, Chaos) SourceFault { return SourceFault{Reorder: true} },
}
