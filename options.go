package tidings

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tidings/tidings/reflector"
)

const defaultStaleAfter = 3 * time.Minute

// Options are the options of a factory and of its informers. The zero value is ready to use.
type Options struct {
	// Scheme tells the kind of a Go type. Nil means client-go's scheme, which has all built-in types.
	Scheme *runtime.Scheme
	// Logger gets warnings and errors. Nil means silence.
	Logger *slog.Logger
	// OnError is called for every error that an informer meets and outlives: a failed list, a broken watch, a wrong
	// transform. It must return quickly. Nil means that errors are only logged and shown in Status.
	OnError func(error)
	// OnMutation is called when the mutation guard catches somebody who writes to a cached object.
	OnMutation func(Mutation)
	// NoMutationGuard turns the mutation guard off.
	NoMutationGuard bool
	// StaleAfter is how long the server may be silent before an informer counts as stale; 0 means 3 minutes. A
	// server sends a bookmark about once a minute.
	StaleAfter time.Duration
	// Backoff is how retries are spaced; the zero value means client-go's spacing.
	Backoff reflector.Backoff
	// PageSize is how many objects a page of a list has; 0 means 500.
	PageSize int64
	// MaxObjectBytes is the largest encoded object that is accepted; 0 means the source's default.
	MaxObjectBytes int
	// Seed makes what is random (jitter, watch timeouts) repeatable; 0 takes a random seed.
	Seed uint64
}

func (o Options) withDefaults() Options {
	if o.Scheme == nil {
		o.Scheme = scheme.Scheme
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.StaleAfter <= 0 {
		o.StaleAfter = defaultStaleAfter
	}
	return o
}

// partSeed gives each part of an informer its own random numbers.
func (o Options) partSeed(i int) uint64 {
	if o.Seed == 0 {
		return rand.Uint64() | 1
	}
	return o.Seed + uint64(i)
}
