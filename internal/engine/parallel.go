package engine

import (
	"iter"
	"runtime"
	"sync"
)

// maxOpeners bounds the cores that open what was read from a file: the program has other things to do when it starts.
const maxOpeners = 4

// openers is how many goroutines open what was read from a file.
func openers() int { return min(runtime.GOMAXPROCS(0), maxOpeners) }

// openBatch is how many objects they open at once.
const openBatch = 200

// result is what a call of work has returned.
type result[R any] struct {
	value R
	err   error
}

// resultOf calls work. A panic is an error of what was read: there is nobody else on that goroutine who could end it.
func resultOf[I, R any](work func(worker int, input I) (R, error), worker int, input I) (r result[R]) {
	defer brokenByPanic(&r.err)
	r.value, r.err = work(worker, input)
	return r
}

// inOrder calls work for the inputs, on several goroutines that know which of them they are, and then calls next with the results, in order, on
// the calling goroutine, which also goes through the inputs. It stops at the first error, which it returns, and waits for all that it has started. At
// most two results for each goroutine wait for next.
func inOrder[I, R any](inputs iter.Seq[I], workers int, work func(worker int, input I) (R, error), next func(R) error) error {
	type job struct {
		input I
		done  chan result[R]
	}
	jobs := make(chan job, 2*workers) // as many as wait, so that sending does not
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
