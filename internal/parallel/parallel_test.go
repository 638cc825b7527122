package parallel

import (
	"errors"
	"iter"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/internal/testseed"
)

// TestInOrder runs work of any duration that sometimes fails, with any number of goroutines.
func TestInOrder(t *testing.T) {
	testseed.Each(t, 50, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			random := testseed.Rand(t)
			n, workers := random.IntN(40), 1+random.IntN(4)
			failing, refused := random.IntN(80), random.IntN(80)
			takes := make([]time.Duration, n)
			for i := range takes {
				takes[i] = time.Duration(random.IntN(50)) * time.Millisecond
			}
			broken, full := errors.New("broken"), errors.New("full")
			var next atomic.Int64
			err := InOrder(numbersBelow(n), workers, func(worker, i int) (int, error) {
				if worker < 0 || worker >= workers || i >= int(next.Load())+2*workers {
					t.Errorf("worker %d of %d works on %d while %d is next", worker, workers, i, next.Load())
				}
				time.Sleep(takes[i])
				if i == failing {
					return 0, broken
				}
				return i, nil
			}, func(i int) error {
				if i != int(next.Load()) {
					t.Errorf("got %d, want %d", i, next.Load())
				}
				if i == refused {
					return full
				}
				next.Add(1)
				return nil
			})
			var want error
			switch {
			case failing < n && failing <= refused:
				want = broken
			case refused < n:
				want = full
			}
			if err != want || err == nil && int(next.Load()) != n {
				t.Errorf("%d of %d, error %v, want %v", next.Load(), n, err, want)
			}
		})
	})
}

// TestPanicOnAWorker: a panic becomes an error, and ends everything.
func TestPanicOnAWorker(t *testing.T) {
	told := 0
	err := InOrder(numbersBelow(20), 2, func(_, i int) (int, error) {
		if i == 7 {
			panic("oh dear")
		}
		return i, nil
	}, func(int) error { told++; return nil })
	if !errors.Is(err, ErrPanic) || !strings.Contains(err.Error(), "oh dear") || told != 7 {
		t.Errorf("%v after %d, want an error with the panic after 7", err, told)
	}
}

// TestWorkers: there are as many as cores, within a bound, and GOMAXPROCS stays as it is.
func TestWorkers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for cores, want := range map[int]int{1: 1, 3: 3, maxWorkers: maxWorkers, maxWorkers + 1: maxWorkers} {
		runtime.GOMAXPROCS(cores)
		if got := Workers(); got != want || runtime.GOMAXPROCS(0) != cores {
			t.Errorf("%d on %d cores, want %d; there are %d cores now", got, cores, want, runtime.GOMAXPROCS(0))
		}
	}
}

func numbersBelow(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n && yield(i); i++ {
		}
	}
}
