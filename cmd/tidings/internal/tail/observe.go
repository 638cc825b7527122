package tail

import (
	"errors"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/reflector"
)

// observation is how an informer was when it was looked at.
type observation struct {
	objects  int
	version  string
	gathered int // objects that the running list has brought so far
	panics   uint64
	pending  int // changes that the handler has not been called for
	sighting
	// watching says that the watch is open.
	watching bool
	// failure is what is in the way now, nil if all is well.
	failure *reflector.Error
	stale   bool
	age     time.Duration // since the server was last heard of
}

// sighting counts what has happened to a list and watch.
type sighting struct{ relists, errors uint64 }

// observe asks the informer how it is. It has one list and watch.
func (f *follow) observe() observation {
	st := f.informer.Status()
	o := observation{objects: st.Objects, version: st.ResourceVersion, stale: silent(st.NotFresh), age: st.Age}
	for _, h := range st.Handlers {
		o.panics += h.Panics
		o.pending += h.Pending
	}
	for _, part := range st.Parts {
		r := part.Reflector
		o.gathered += r.Gathered
		o.sighting = sighting{r.Relists, r.Errors}
		if r.Problem != nil {
			o.failure = r.Problem
		}
		o.watching = r.Phase == reflector.Watching && o.failure == nil
	}
	return o
}

// silent reports whether nothing is wrong but that the server has not been heard of for too long.
func silent(notFresh error) bool {
	stale, ok := errors.AsType[*tidings.StaleError](notFresh)
	return ok && stale.Cause == nil
}
