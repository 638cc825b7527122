package workqueue

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/internal/testseed"
)

func TestExponential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Exponential[string]{Base: time.Second, Max: 5 * time.Second}
		for i, want := range []time.Duration{1, 2, 4, 5, 5} {
			got := l.When("a")
			if got != want*time.Second {
				t.Errorf("failure %d: %v", i, got)
			}
			time.Sleep(got)
		}
		if l.NumRequeues("a") != 5 || l.NumRequeues("b") != 0 {
			t.Errorf("requeues: %d, %d", l.NumRequeues("a"), l.NumRequeues("b"))
		}
		l.Forget("a")
		if got := l.When("a"); got != time.Second {
			t.Errorf("after Forget: %v", got)
		}
	})
}

// TestExponentialModel compares the waits of items that fail when they are due, earlier and later with those of a
// model: a list of the waits that each item has had. It checks what that means: an item never waits longer than it has
// been failing, but for one wait.
func TestExponentialModel(t *testing.T) {
	testseed.Each(t, 20, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			const items, base, longest = 4, 10 * time.Millisecond, 20 * time.Second
			type model struct {
				failures   int
				waits      []time.Duration
				first, due time.Time
			}
			random := rand.New(rand.NewPCG(seed, 0))
			l := &Exponential[int]{Base: base, Max: longest}
			var models [items]model
			for range 2000 {
				i := random.IntN(items)
				m := &models[i]
				switch random.IntN(200) {
				case 0:
					l.Forget(i)
					*m = model{}
					continue
				case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10: // as a retry
					time.Sleep(time.Until(m.due))
				default:
					time.Sleep(time.Duration(random.Int64N(int64(50 * time.Millisecond))))
				}
				now := time.Now()
				want := m.due.Sub(now)
				if m.failures++; want <= 0 {
					want = base
					for range m.waits {
						want = min(2*want, longest)
					}
					m.waits, m.due = append(m.waits, want), now.Add(want)
				}
				if m.failures == 1 {
					m.first = now
				}
				got := l.When(i)
				if got != want || l.NumRequeues(i) != m.failures {
					t.Fatalf("item %d waits %v after %d failures, want %v after %d: waits %v",
						i, got, l.NumRequeues(i), want, m.failures, m.waits)
				}
				if got > now.Sub(m.first)+base {
					t.Fatalf("item %d waits %v although it has failed for %v", i, got, now.Sub(m.first))
				}
			}
		})
	})
}

func TestExponentialStaysInBounds(t *testing.T) {
	for _, l := range []*Exponential[int]{
		{}, {Base: time.Nanosecond, Max: 1<<63 - 1}, {Base: time.Hour, Max: time.Second}, {Base: -1, Max: -1},
		{Jitter: 1}, {Jitter: 7, Rand: func() float64 { return 0.999 }},
	} {
		for range 200 {
			if wait, longest := l.wait(l.NumRequeues(0)); wait < 0 || wait > longest {
				t.Fatalf("%v after %d failures", wait, l.NumRequeues(0))
			}
			if wait := l.When(0); wait < 0 {
				t.Fatalf("%v", wait)
			}
		}
	}
}

// TestExponentialDefaults checks the waits of limiters with few fields set, and with extreme values.
func TestExponentialDefaults(t *testing.T) {
	const longest = 1<<63 - 1
	for _, tt := range []struct {
		base, max time.Duration
		failures  int
		want      time.Duration
	}{
		{0, 0, 0, 5 * time.Millisecond}, {0, 0, 3, 40 * time.Millisecond}, {0, 0, 17, 655360 * time.Millisecond}, {0, 0, 18, 1000 * time.Second},
		{time.Second, 0, 2, 4 * time.Second}, {0, time.Minute, 60, time.Minute}, {time.Hour, time.Second, 0, time.Hour}, {time.Hour, 0, 5, time.Hour},
		{1, longest, 61, 1 << 61}, {1, longest, 62, longest}, {1, longest, 1000, longest},
	} {
		l := Exponential[int]{Base: tt.base, Max: tt.max}
		if got, _ := l.wait(tt.failures); got != tt.want {
			t.Errorf("base %v, max %v: %v after %d failures, want %v", tt.base, tt.max, got, tt.failures, tt.want)
		}
	}
}

func TestExponentialJitter(t *testing.T) {
	l := &Exponential[int]{Base: time.Second, Jitter: 0.5, Rand: func() float64 { return 0.5 }}
	if got := l.When(0); got != 750*time.Millisecond {
		t.Error(got)
	}
}

func TestExponentialForgetsWhatIsLongOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Exponential[int]{Max: time.Second}
		for i := range 10_000 {
			l.When(i)
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(l.failures); n > 2*minSweep {
			t.Errorf("%d items remembered", n)
		}
		if l.NumRequeues(9_999) != 1 {
			t.Error("the last item was forgotten")
		}
	})
}

// TestExponentialRemembers has many items that failed recently: none is forgotten.
func TestExponentialRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Exponential[int]{Max: time.Second}
		const items = 4 * minSweep
		for i := range items {
			l.When(i)
			time.Sleep(time.Millisecond)
		}
		for i := range items {
			if l.NumRequeues(i) != 1 {
				t.Fatalf("item %d of %d is forgotten", i, items)
			}
		}
	})
}

func TestTokenBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewTokenBucket[int](10, 2)
		for i, want := range []time.Duration{0, 0, 100, 200} {
			if got := l.When(i); got != want*time.Millisecond {
				t.Errorf("item %d: %v", i, got)
			}
		}
		time.Sleep(time.Minute)
		if got := l.When(0); got != 0 {
			t.Errorf("after a minute: %v", got)
		}
		l.Forget(0)
		if l.NumRequeues(0) != 0 {
			t.Error("a bucket remembers no items")
		}
		if got := NewTokenBucket[int](0, 0).When(0); got != 0 {
			t.Errorf("without a limit: %v", got)
		}
	})
}

func TestMaxOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := MaxOf[int]{&Exponential[int]{Base: time.Second}, NewTokenBucket[int](0.1, 1)}
		for i, want := range []time.Duration{1, 10, 20} {
			if got := l.When(0); got != want*time.Second {
				t.Errorf("failure %d: %v", i, got)
			}
		}
		if l.NumRequeues(0) != 3 {
			t.Error(l.NumRequeues(0))
		}
		l.Forget(0)
		if l.NumRequeues(0) != 0 || (MaxOf[int]{}).When(0) != 0 {
			t.Error("Forget does not reach the limiters, or none of them waits")
		}
	})
}
