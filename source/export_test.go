package source

import (
	"github.com/tidings/tidings/internal/wire"
	"github.com/tidings/tidings/object"
)

// WireStats returns the combined statistics of a source's decoders.
func WireStats[T object.Object](h *HTTP[T]) wire.Stats { return h.wireStats() }
