// Package assert counts how often branches are reached that ordinary input does not reach, so that a test with faults can
// require that it does reach them: what no test reaches, no test holds right. It is on in builds with the race detector or
// the tag assertions, and compiles to nothing elsewhere. The idea is that of the "sometimes" assertions of deterministic
// simulation.
package assert

import (
	"sync"
	"sync/atomic"
)

// branches has a counter for each name that was reached.
var branches sync.Map // string to *atomic.Int64

// Reached counts that the branch was reached. Its name says what happens there, and is a string literal.
func Reached(branch string) {
	if !On {
		return
	}
	counter, ok := branches.Load(branch)
	if !ok {
		counter, _ = branches.LoadOrStore(branch, new(atomic.Int64))
	}
	counter.(*atomic.Int64).Add(1)
}

// Branches returns how often each branch was reached in this process; those that never were are missing.
func Branches() map[string]int64 {
	all := map[string]int64{}
	branches.Range(func(name, counter any) bool {
		all[name.(string)] = counter.(*atomic.Int64).Load()
		return true
	})
	return all
}
