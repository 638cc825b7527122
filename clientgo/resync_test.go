package clientgo_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// unset stands for the informer's default period.
const unset = time.Duration(-1)

// resyncs runs an informer with one pod for ten minutes and returns how many resyncs each handler
// saw. Handlers with an early period are added before the start, those with a late one after it.
func resyncs(t *testing.T, e engine, byDefault time.Duration, early, late []time.Duration) []int {
	t.Helper()
	counts := make([]int, len(early)+len(late))
	inf := e.informer(newPods(t, "a/one"), &corev1.Pod{}, byDefault, cache.Indexers{})
	add := func(i int, period time.Duration) {
		options := cache.HandlerOptions{}
		if period != unset {
			options.ResyncPeriod = &period
		}
		h := cache.ResourceEventHandlerFuncs{UpdateFunc: func(old, new any) {
			if old != new {
				t.Errorf("a resync of different objects: %v, %v", old, new)
			}
			counts[i]++
		}}
		if _, err := inf.AddEventHandlerWithOptions(h, options); err != nil {
			t.Fatal(err)
		}
	}
	for i, period := range early {
		add(i, period)
	}
	stop := run(t, inf)
	synctest.Wait()
	for i, period := range late {
		add(len(early)+i, period)
	}
	time.Sleep(10*time.Minute + 500*time.Millisecond)
	stop()
	return counts
}

// "For each handler with a non-zero requested resync period, the nominal resync period is the
// requested resync period rounded up to a multiple of the informer's resync checking period", which
// is "the maximum of (a) the minimum of the resync periods requested before the informer starts and
// the default and (b) minimumResyncPeriod", which is (b) for the handlers' periods, but not for a
// shorter default. "The created informer will not do resyncs if ResyncPeriod is zero."
func TestResyncPeriods(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, test := range []struct {
		byDefault   time.Duration
		early, late []time.Duration
		want        []int
	}{
		{0, []time.Duration{5 * s, unset}, []time.Duration{5 * s}, []int{0, 0, 0}},
		{60 * s, []time.Duration{unset, 0}, nil, []int{10, 0}},
		{60 * s, []time.Duration{20 * s, unset, 30 * s}, nil, []int{30, 10, 15}}, // 30 s becomes 40 s
		{60 * s, nil, []time.Duration{20 * s, 90 * s}, []int{10, 5}},             // 20 s becomes 60 s, 90 s becomes 120 s
		{60 * s, []time.Duration{time.Millisecond}, nil, []int{600}},             // becomes 1 s
		{60 * s, []time.Duration{-5 * s}, []time.Duration{-s}, []int{10, 10}},    // at every check
		{0, []time.Duration{-5 * s}, []time.Duration{-s}, []int{0, 0}},
		{700 * ms, []time.Duration{unset, -s}, []time.Duration{1500 * ms}, []int{428, 857, 285}}, // the first becomes 1 s, checked every 0.7 s
	} {
		t.Run(fmt.Sprint(test.byDefault, test.early, test.late), func(t *testing.T) {
			bothEngines(t, func(t *testing.T, e engine) {
				for i, got := range resyncs(t, e, test.byDefault, test.early, test.late) {
					// The clocks of the checks and of the handlers do not start together, so one more or less is fine.
					if want := test.want[i]; got < want-1 || got > want+1 || (want == 0) != (got == 0) {
						t.Errorf("handler %d saw %d resyncs in ten minutes, want about %d", i, got, want)
					}
				}
			})
		})
	}
}

// "If non-zero, the store is re-synced with that frequency": a controller's resync period has no minimum.
func TestControllerResyncPeriod(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		resyncs := 0
		_, c := e.controller(cache.InformerOptions{
			ListerWatcher: newPods(t, "a/one"), ObjectType: &corev1.Pod{}, ResyncPeriod: 100 * time.Millisecond,
			Handler: cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ any) { resyncs++ }},
		})
		stop := run(t, c)
		time.Sleep(10*time.Second + 50*time.Millisecond)
		stop()
		if resyncs < 99 || resyncs > 101 {
			t.Errorf("%d resyncs in ten seconds, want about 100", resyncs)
		}
	})
}
