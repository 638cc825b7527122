package tidingstest_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
	"github.com/tidings/tidings/tidingstest/recorder"
)

// TestFaultySourceConverges runs informers on a source that misbehaves at random. Once it has
// stopped misbehaving, the store and the state that a handler has seen must equal the server's, and
// no promise to the handler may have been broken.
func TestFaultySourceConverges(t *testing.T) {
	testseed.Each(t, 12, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { converge(t, rand.New(rand.NewPCG(seed, 0))) })
	})
}

func converge(t *testing.T, random *rand.Rand) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	src := faultySource(t, server)
	src.InjectRandom(tidingstest.Any, tidingstest.Chaos{Seed: random.Uint64(), Share: 0.3 + 0.5*random.Float64(), Hostile: random.IntN(3) > 0})
	opts := tidings.InformerOptions[configMap]{}
	var rec recorder.Recorder[configMap]
	rec.AllowRewrites()
	opts.Logger = slog.New(slog.DiscardHandler)
	opts.Seed, opts.NoWatchList, opts.PageSize = random.Uint64(), random.IntN(2) == 0, int64(random.IntN(2)*7)
	if random.IntN(3) == 0 {
		opts.MemoryBudget = 1 // everything is folded
	}
	if random.IntN(2) == 0 { // an informer whose source must not share anything
		opts.Transform = func(o configMap) (configMap, error) {
			o.Data["transformed"] = o.Data["value"]
			return o, nil
		}
	}
	inf, err := tidings.NewInformer(src, opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inf.AddHandler(tidings.DeltaFunc[configMap](rec.Delta), tidings.HandlerOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); time.Since(start) < 20*time.Minute; {
		time.Sleep(time.Duration(random.ExpFloat64() * float64(4*time.Second)))
		writeRandomly(server, random)
		if random.IntN(5) == 0 {
			server.BreakConnections() // so that there are many requests
		}
		if random.IntN(30) == 0 {
			server.Compact()
		}
	}
	src.ClearFaults()
	time.Sleep(30 * time.Minute) // by then a watch that hangs is given up
	synctest.Wait()

	want := server.Versions(configMaps)
	if diff := cmp.Diff(want, versions(inf.Snapshot().All())); diff != "" {
		t.Errorf("the store (-server +store):\n%s", diff)
	}
	if diff := cmp.Diff(want, versions(maps.All(rec.State()))); diff != "" {
		t.Errorf("what the handler was told (-server +handler):\n%s", diff)
	}
	for _, o := range server.Objects(configMaps) {
		got, ok := inf.Get(object.KeyOf(o))
		if value := o.(configMap).Data["value"]; !ok || got.Data["value"] != value || opts.Transform != nil && got.Data["transformed"] != value {
			t.Errorf("the store has %v of %v", got, o)
		}
	}
	if err := rec.Err(); err != nil {
		t.Error(err)
	}
	// A replica that returns stale data repeatedly cannot be distinguished from a server that was restored.
	if rec.Rewinds() > 0 && inf.Status().Parts[0].Reflector.Rewrites == 0 {
		t.Errorf("%d times an object went back in time, and nothing says so", rec.Rewinds())
	}
	if err := inf.Fresh(); err != nil {
		t.Error(err)
	}
	if err := inf.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if len(src.FaultCounts()) == 0 {
		t.Error("nothing went wrong")
	}
}

// writeRandomly makes one random change.
func writeRandomly(server *tidingstest.Server, random *rand.Rand) {
	o := newConfigMap(fmt.Sprint("x", random.IntN(15)), fmt.Sprint(random.IntN(1000)))
	_, exists := server.Versions(configMaps)[object.KeyOf(o)]
	switch {
	case !exists:
		server.Create(o)
	case random.IntN(3) == 0:
		server.Delete(o)
	default:
		server.Update(o)
	}
}

func versions(objects iter.Seq2[object.Key, configMap]) map[object.Key]string {
	versions := map[object.Key]string{}
	for key, o := range objects {
		versions[key] = o.ResourceVersion
	}
	return versions
}

var _ source.ListerWatcher[configMap] = (*tidingstest.FaultySource[configMap])(nil)
