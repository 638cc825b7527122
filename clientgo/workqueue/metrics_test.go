package workqueue_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	upstream "k8s.io/client-go/util/workqueue"

	"github.com/tidings/tidings/clientgo/workqueue"
)

// provider records the updates of a queue's metrics.
type provider struct {
	mu    sync.Mutex
	notes []string
}

type metric struct {
	p    *provider
	name string
}

func (m metric) note(format string, args ...any) {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	m.p.notes = append(m.p.notes, m.name+" "+fmt.Sprintf(format, args...))
}

func (m metric) Inc()              { m.note("+1") }
func (m metric) Dec()              { m.note("-1") }
func (m metric) Set(v float64)     { m.note("= %v", v) }
func (m metric) Observe(v float64) { m.note("saw %v", v) }

func (p *provider) NewDepthMetric(name string) workqueue.GaugeMetric {
	return metric{p, name + " depth"}
}
func (p *provider) NewAddsMetric(name string) workqueue.CounterMetric {
	return metric{p, name + " adds"}
}
func (p *provider) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return metric{p, name + " latency"}
}
func (p *provider) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return metric{p, name + " work"}
}
func (p *provider) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return metric{p, name + " unfinished"}
}
func (p *provider) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return metric{p, name + " longest"}
}
func (p *provider) NewRetriesMetric(name string) workqueue.CounterMetric {
	return metric{p, name + " retries"}
}

func (p *provider) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	notes := p.notes
	p.notes = nil
	return notes
}

// A named queue updates its metrics for every item, as client-go's does.
func TestMetrics(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		p := new(provider)
		q := e.limited(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Minute, time.Hour),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: p})
		expect := func(when string, want ...string) {
			t.Helper()
			if got := p.take(); !slices.Equal(got, want) {
				t.Errorf("%s: the metrics were told %q, want %q", when, got, want)
			}
		}
		time.Sleep(100 * time.Millisecond)
		q.Add("a")
		q.Add("a")
		expect("added twice", "q adds +1", "q depth +1")
		time.Sleep(100 * time.Millisecond)
		get(t, q, "a")
		expect("taken", "q depth -1", "q latency saw 0.1")
		q.Add("a")
		expect("added while it is processed", "q adds +1", "q depth +1")
		time.Sleep(400 * time.Millisecond)
		expect("half a second", "q unfinished = 0.3", "q longest = 0.3")
		q.Done("a")
		expect("done", "q work saw 0.4")
		get(t, q, "a")
		q.Done("a")
		p.take()
		q.AddRateLimited("b")
		expect("rate limited", "q retries +1")
		time.Sleep(time.Minute)
		get(t, q, "b")
		got := slices.DeleteFunc(p.take(), func(note string) bool { return note == "q unfinished = 0" || note == "q longest = 0" })
		if want := []string{"q adds +1", "q depth +1", "q depth -1", "q latency saw 0"}; !slices.Equal(got, want) {
			t.Errorf("a retry: the metrics were told %q, want %q", got, want)
		}
		q.Done("b")
		q.ShutDown()
		p.take()
		time.Sleep(time.Minute)
		expect("after the shutdown")
	})
}

// An unnamed queue has no metrics.
func TestNoMetricsWithoutName(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		p := new(provider)
		q := e.plain(workqueue.TypedQueueConfig[string]{MetricsProvider: p})
		q.Add("a")
		get(t, q, "a")
		q.Done("a")
		q.ShutDown()
		if notes := p.take(); len(notes) > 0 {
			t.Errorf("the metrics were told %q", notes)
		}
	})
}

// globalProvider is passed to client-go's SetProvider, which ignores all but the first call in a process.
var globalProvider = sync.OnceValue(func() *provider {
	p := new(provider)
	upstream.SetProvider(p)
	return p
})

// Queues also use the provider that a library passed to client-go's SetProvider.
func TestGlobalProvider(t *testing.T) {
	p := globalProvider()
	for name, e := range engines {
		q := e.plain(workqueue.TypedQueueConfig[string]{Name: name})
		q.Add("a")
		q.ShutDown()
		notes := slices.DeleteFunc(p.take(), func(note string) bool { return note != name+" adds +1" }) // the periodic update may come at any time
		if len(notes) != 1 {
			t.Errorf("%s: the metrics were told %q", name, notes)
		}
	}
}
