package tidingsruntime_test

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	server := serverOf(b, pods)
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

// serverOf returns a server with varied pods.
func serverOf(b *testing.B, pods int) *tidingstest.Server {
	server := tidingstest.NewServer(b, tidingstest.ServerOptions{})
	var all []object.Object
	for _, p := range wiretest.Pods(pods, 1) {
		all = append(all, p)
	}
	server.Load(all...)
	return server
}

// filled runs a cache until it has the objects of the kinds and forms of its arguments.
func filled(b *testing.B, c cache.Cache, forms ...client.Object) (end func()) {
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	for _, form := range forms {
		if _, err := c.GetInformer(ctx, form); err != nil || !c.WaitForCacheSync(ctx) {
			b.Fatalf("not synced: %v", err)
		}
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

// BenchmarkThreeForms measures the memory per object of a cache that has 2,000 varied pods in all three forms.
func BenchmarkThreeForms(b *testing.B) {
	const pods = 2000
	server := serverOf(b, pods)
	for name, newCache := range map[string]cache.NewCacheFunc{
		"controller-runtime": cache.New, "tidings": tidingsruntime.NewCache, "tidings, one watch": oneWatch,
	} {
		b.Run(name, func(b *testing.B) {
			var bytes int64
			for b.Loop() {
				before := heap()
				c, err := newCache(server.Config(), cache.Options{Scheme: testScheme})
				if err != nil {
					b.Fatal(err)
				}
				end := filled(b, c, &corev1.Pod{}, asUnstructured(podKind), asMetadata(podKind))
				bytes += int64(heap().HeapAlloc - before.HeapAlloc)
				end()
			}
			b.ReportMetric(float64(bytes)/float64(b.N)/pods, "B/pod")
		})
	}
}

// BenchmarkViews measures making a pod from another form, beside copying and decoding it.
func BenchmarkViews(b *testing.B) {
	typed := wiretest.Pods(1, 1)[0]
	typed.TypeMeta = metav1.TypeMeta{}
	made, _, err := tidingsruntime.Convert(typed, podKind, asUnstructured(podKind))
	if err != nil {
		b.Fatal(err)
	}
	whole := made.(*unstructured.Unstructured)
	data, err := whole.MarshalJSON()
	if err != nil {
		b.Fatal(err)
	}
	to := func(from, like client.Object) func() error {
		return func() error { _, _, err := tidingsruntime.Convert(from, podKind, like); return err }
	}
	for name, make := range map[string]func() error{
		"copy structured":              func() error { typed.DeepCopy(); return nil },
		"copy unstructured":            func() error { whole.DeepCopy(); return nil },
		"decode unstructured":          func() error { return new(unstructured.Unstructured).UnmarshalJSON(data) },
		"unstructured from structured": to(typed, whole), "structured from unstructured": to(whole, typed),
		"metadata from structured":   to(typed, asMetadata(podKind)),
		"metadata from unstructured": to(whole, asMetadata(podKind)),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := make(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
