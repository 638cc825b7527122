package engine

import (
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
func resultOf[R any](work func(worker, i int) (R, error), worker, i int) (r result[R]) {
	defer brokenByPanic(&r.err)
	r.value, r.err = work(worker, i)
	return r
}

// inOrder calls work for the numbers below n, on several goroutines that know which of them they are, and then calls next with the
// results, in order, on the calling goroutine. It stops at the first error, which it returns, and waits for all that it has started. At most two
// results for each goroutine wait for next.
func inOrder[R any](n, workers int, work func(worker, i int) (R, error), next func(R) error) error {
	type job struct {
		i    int
		done chan result[R]
	}
	jobs := make(chan job, 2*workers) // as many as wait, so that sending does not
	var running sync.WaitGroup
	defer running.Wait()
	defer close(jobs)
	for worker := range workers {
		running.Go(func() {
			for j := range jobs {
				j.done <- resultOf(work, worker, j.i)
			}
		})
	}
	var waiting []job
	for sent, i := 0, 0; i < n; i++ {
		for ; sent < min(n, i+2*workers); sent++ {
			j := job{sent, make(chan result[R], 1)}
			jobs <- j
			waiting = append(waiting, j)
		}
		r := <-waiting[0].done
		waiting = waiting[1:]
		if r.err == nil {
			r.err = next(r.value)
		}
		if r.err != nil {
			return r.err
		}
	}
	return nil
}
