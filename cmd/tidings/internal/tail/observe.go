package tail

import (
	"errors"
	"time"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/reflector"
)

// observation is the state of an informer at one time.
type observation struct {
	objects  int
	version  string
	gathered int // number of objects received so far by the current list
	panics   uint64
	pending  int // number of changes for which the handler has not been called
	counters
	// watching says that the watch is open.
	watching bool
	// failure is the current failure, or nil.
	failure *reflector.Error
	stale   bool
	age     time.Duration // time since the server last sent something
}

// counters counts what has happened to a list and watch.
type counters struct{ relists, errors uint64 }

// observe returns the state of the informer, which has one list and watch.
func (f *follow) observe() observation {
	st := f.informer.Status()
	o := observation{objects: st.Objects, version: st.ResourceVersion, stale: onlyStale(st.NotFresh), age: st.Age}
	for _, h := range st.Handlers {
		o.panics += h.Panics
		o.pending += h.Pending
	}
	for _, part := range st.Parts {
		r := part.Reflector
		o.gathered += r.Gathered
		o.counters = counters{r.Relists, r.Errors}
		if r.Problem != nil {
			o.failure = r.Problem
		}
		o.watching = r.Phase == reflector.Watching && o.failure == nil
	}
	return o
}

// onlyStale reports whether the only problem is that the server has sent nothing for too long.
func onlyStale(notFresh error) bool {
	stale, ok := errors.AsType[*tidings.StaleError](notFresh)
	return ok && stale.Cause == nil
}
