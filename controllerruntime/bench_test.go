package tidingsruntime_test

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	tidingsruntime "github.com/tidings/tidings/controllerruntime"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// BenchmarkMemory measures the memory per object in each cache: 2,000 varied pods in the three
// forms, with and without managed fields.
func BenchmarkMemory(b *testing.B) {
	const pods = 2000
	server := tidingstest.NewServer(b, tidingstest.ServerOptions{})
	var all []object.Object
	for _, p := range wiretest.Pods(pods, 1) {
		all = append(all, p)
	}
	server.Load(all...)
	for _, form := range slices.Sorted(maps.Keys(forms(podKind))) {
		for _, strip := range []bool{false, true} {
			for _, name := range []string{"controller-runtime", "tidings"} {
				newCache := map[string]cache.NewCacheFunc{"controller-runtime": cache.New, "tidings": tidingsruntime.NewCache}[name]
				what := form
				opts := cache.Options{Scheme: testScheme}
				if strip {
					what += "-stripped"
					opts.DefaultTransform = cache.TransformStripManagedFields()
				}
				obj, _ := forms(podKind)[form]()
				b.Run(what+"/"+name, func(b *testing.B) {
					fill := func() (end func()) {
						c, err := newCache(server.Config(), opts)
						if err != nil {
							b.Fatal(err)
						}
						return filled(b, c, obj)
					}
					fill()() // so that the server has encoded everything
					var bytes, objects int64
					for b.Loop() {
						before := heap()
						end := fill()
						after := heap()
						end()
						bytes += int64(after.HeapAlloc - before.HeapAlloc)
						objects += int64(after.HeapObjects - before.HeapObjects)
					}
					b.ReportMetric(float64(bytes)/float64(b.N)/pods, "B/pod")
					b.ReportMetric(float64(objects)/float64(b.N)/pods, "objects/pod")
				})
			}
		}
	}
}

// filled runs a cache until it has the objects of obj's kind.
func filled(b *testing.B, c cache.Cache, obj client.Object) (end func()) {
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	if _, err := c.GetInformer(ctx, obj); err != nil || !c.WaitForCacheSync(ctx) {
		b.Fatalf("not synced: %v", err)
	}
	return func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		runtime.KeepAlive(c)
	}
}

func heap() (m runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m
}
