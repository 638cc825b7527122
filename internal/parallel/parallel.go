// Package parallel runs work on several cores and takes its results in order.
package parallel

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync"
)

// maxWorkers bounds the cores that work on one thing: a program that starts has other things to do.
const maxWorkers = 4

// Workers is how many goroutines are worth starting.
func Workers() int { return min(runtime.GOMAXPROCS(0), maxWorkers) }

// ErrPanic is wrapped by the error of work that panicked.
var ErrPanic = errors.New("panic")

// result is the result of a call of work.
type result[R any] struct {
	value R
	err   error
}

// resultOf calls work. A panic becomes an error about the input: nobody else on that goroutine could recover it.
func resultOf[I, R any](work func(worker int, input I) (R, error), worker int, input I) (r result[R]) {
	defer func() {
		if reason := recover(); reason != nil {
			r.err = fmt.Errorf("%w: %v", ErrPanic, reason)
		}
	}()
	r.value, r.err = work(worker, input)
	return r
}

// InOrder calls work for the inputs on several goroutines, identified by worker, and next with the
// results, in order, on the calling goroutine, which also iterates over the inputs. It stops at the
// first error, which it returns, and waits for everything it started. At most two results per
// goroutine wait for next.
func InOrder[I, R any](inputs iter.Seq[I], workers int, work func(worker int, input I) (R, error), next func(R) error) error {
	type job struct {
		input I
		done  chan result[R]
	}
	jobs := make(chan job, 2*workers) // room for all that wait, so that sending never blocks
	var running sync.WaitGroup
	defer running.Wait()
	defer close(jobs)
	for worker := range workers {
		running.Go(func() {
			for j := range jobs {
				j.done <- resultOf(work, worker, j.input)
			}
		})
	}
	var waiting []chan result[R]
	take := func() error {
		r := <-waiting[0]
		waiting = waiting[1:]
		if r.err != nil {
			return r.err
		}
		return next(r.value)
	}
	for input := range inputs {
		if len(waiting) == cap(jobs) {
			if err := take(); err != nil {
				return err
			}
		}
		j := job{input, make(chan result[R], 1)}
		jobs <- j
		waiting = append(waiting, j.done)
	}
	for len(waiting) > 0 {
		if err := take(); err != nil {
			return err
		}
	}
	return nil
}
