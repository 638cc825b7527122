package reflector

import (
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
)

// internals are the methods of a Reflector that only this module's packages call.
type internals = intake.Internals

// reflectorInternals are the internals of a Reflector.
type reflectorInternals[T object.Object] struct{ r *Reflector[T] }

var _ intake.Reflector[Skipped] = reflectorInternals[object.Object]{}

// Relist makes the reflector list the most recent state of the collection and hand it to the sink,
// without reusing any of the sink's objects. It is for callers that find the sink to differ from
// the server; cause says how, and is reported as an Error with the reason Diverged. Relist does not
// wait, and may be called from any goroutine.
func (i reflectorInternals[T]) Relist(cause error) {
	r := i.r
	r.relistRequest.cause.Store(&cause)
	if interrupt := r.relistRequest.interrupt.Load(); interrupt != nil && Phase(r.status.phase.Load()) == Watching {
		(*interrupt)(nil)
	}
}

// AllSkipped returns all objects whose present state could not be decoded, sorted by key; Status
// names the first of them. It may be called from any goroutine and takes no lock.
func (i reflectorInternals[T]) AllSkipped() []Skipped {
	st := i.r.status.skipped.Load()
	if st == nil {
		return nil
	}
	return sortedSkipped(st.all)
}
