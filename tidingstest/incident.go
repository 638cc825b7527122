package tidingstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Disturb causes incidents that affect the whole server until ctx ends, and returns their kinds:
// connections break, the server restarts, is unreachable, loses its history, rejects everything for
// a while, or returns stale data. At the end the server recovers. The incidents and their times
// depend only on the seed of chaos. FaultCounts counts them.
func (s *Server) Disturb(ctx context.Context, chaos Chaos) (incidents []string) {
	chaos = chaos.withDefaults()
	random := rand.New(rand.NewPCG(chaos.Seed, 0))
	choices := slices.Clone(anyIncidents)
	if !s.options.Loopback {
		choices = append(choices, incident{"partitioned", partition})
	}
	if s.options.TLS {
		choices = append(choices, tlsIncidents...)
	}
	for wait(ctx, time.Duration(random.Int64N(2*int64(chaos.Interval)))) {
		i, d := choices[random.IntN(len(choices))], delay(random, chaos)
		s.faults.count(i.kind)
		i.run(ctx, s, random, d)
		incidents = append(incidents, fmt.Sprintf("%s (%v)", i.kind, d))
	}
	return incidents
}

// incident is something that happens to a server. run returns when the server is healthy again, or
// will be on its own after the duration.
type incident struct {
	kind string
	run  func(context.Context, *Server, *rand.Rand, time.Duration)
}

var errNoSpace = errors.New("etcdserver: mvcc: database space exceeded")

var anyIncidents = []incident{
	{"all connections broken", func(_ context.Context, s *Server, _ *rand.Rand, _ time.Duration) { s.BreakConnections() }},
	{"down, connections refused", func(ctx context.Context, s *Server, _ *rand.Rand, d time.Duration) {
		s.Stop()
		wait(ctx, d)
		s.Start()
	}},
	{"compacted", func(_ context.Context, s *Server, _ *rand.Rand, _ time.Duration) { s.Compact() }},
	{"compacted and connections broken", func(_ context.Context, s *Server, _ *rand.Rand, _ time.Duration) {
		s.Compact()
		s.BreakConnections()
	}},
	{"unavailable", refuse(Any, apierrors.NewServiceUnavailable("chaos"))},
	{"forbidden", refuse(Any, apierrors.NewForbidden(schema.GroupResource{Resource: "chaos"}, "", errChaos))},
	{"unauthorized", refuse(Any, apierrors.NewUnauthorized("chaos"))},
	{"out of disk", refuse(Write, apierrors.NewInternalError(errNoSpace))},
	{"stale replica", func(_ context.Context, s *Server, random *rand.Rand, d time.Duration) {
		s.InjectFor(d, List, Fault{Lag: 1 + random.IntN(20)})
	}},
	{"clock jump", func(_ context.Context, s *Server, random *rand.Rand, _ time.Duration) {
		s.ShiftClock(time.Duration(random.Int64N(int64(2*time.Hour))) - time.Hour)
	}},
}

var tlsIncidents = []incident{
	{"certificate renewed", func(_ context.Context, s *Server, _ *rand.Rand, _ time.Duration) { s.ChangeCertificate(true) }},
	{"certificate not trusted", func(ctx context.Context, s *Server, _ *rand.Rand, d time.Duration) {
		s.ChangeCertificate(false)
		wait(ctx, d)
		s.ChangeCertificate(true)
	}},
}

func refuse(kind RequestKind, err apierrors.APIStatus) func(context.Context, *Server, *rand.Rand, time.Duration) {
	return func(_ context.Context, s *Server, _ *rand.Rand, d time.Duration) {
		s.InjectFor(d, kind, Fault{Err: err})
	}
}

func partition(ctx context.Context, s *Server, _ *rand.Rand, d time.Duration) {
	s.Partition()
	wait(ctx, d)
	s.Heal()
}

// wait waits for d. It returns false if ctx ends first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
