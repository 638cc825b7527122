package source

import (
	"testing"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/object"
)

// WireStats returns the combined statistics of a source's decoders.
func WireStats[T object.Object](h *HTTP[T]) wire.Stats { return h.wireStats() }

// InternalsOf returns the internals of a source, as other packages of this module get them.
func InternalsOf[T object.Object](h *HTTP[T]) httpInternals[T] {
	return intake.InternalsOf(h).(httpInternals[T])
}

// PlanAtOnce has the sources that the test makes decode the first objects like all others.
func PlanAtOnce(t *testing.T) {
	before := fewObjects
	fewObjects = 0
	t.Cleanup(func() { fewObjects = before })
}
