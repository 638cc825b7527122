package promises_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// benchmarkPods is the number of pods in BenchmarkStart, whose heap and server are not small.
const benchmarkPods = 50_000

// BenchmarkStart starts an informer of unchanged pods, with an index and a handler: with a list,
// from a file, and from a file with a memory budget. It reports how long the sync takes, how much
// is read from the server, and the size of the file. The server shares the process.
func BenchmarkStart(b *testing.B) {
	server := tidingstest.NewServer(b, tidingstest.ServerOptions{Loopback: true})
	var objects []object.Object
	for _, p := range wiretest.Pods(benchmarkPods, 1) {
		objects = append(objects, p)
	}
	server.Load(objects...)
	run := func(b *testing.B, opts tidings.Options) (tidings.PartStatus, time.Duration) {
		f, err := tidings.NewFactory(server.Config(), opts)
		if err != nil {
			b.Fatal(err)
		}
		inf, err := tidings.Informer[*corev1.Pod](f, tidings.Scope{})
		if err != nil {
			b.Fatal(err)
		}
		inf.AddIndex("node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
		if _, err := inf.AddHandler(tidings.HandlerFuncs[*corev1.Pod]{Add: func(*corev1.Pod, bool) {}}, tidings.HandlerOptions{}); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if err := f.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := inf.WaitForSync(b.Context()); err != nil {
			b.Fatal(err)
		}
		took := time.Since(began)
		if n := inf.Snapshot().Len(); n != benchmarkPods {
			b.Fatalf("%d pods", n)
		}
		if err := f.Shutdown(context.Background()); err != nil {
			b.Fatal(err)
		}
		return inf.Status().Parts[0], took
	}
	report := func(b *testing.B, opts tidings.Options, loaded int) {
		var synced time.Duration
		var bytes uint64
		before := processTime()
		for b.Loop() {
			st, took := run(b, opts)
			if st.File.Loaded != loaded {
				b.Fatalf("loaded %d: %+v", st.File.Loaded, st.File)
			}
			synced, bytes = synced+took, bytes+st.Source.Bytes
		}
		n := float64(b.N)
		b.ReportMetric((processTime()-before).Seconds()/n, "cpu-s")
		b.ReportMetric(synced.Seconds()/n, "sync-s")
		b.ReportMetric(float64(bytes)/n, "server-B")
	}
	b.Run("list", func(b *testing.B) { report(b, tidings.Options{}, 0) })
	for name, budget := range map[string]int64{"file": 0, "budget": 64 << 20} {
		opts := tidings.Options{Files: tidings.Files{Dir: b.TempDir()}, MemoryBudget: budget}
		st, _ := run(b, opts)
		b.Run(name, func(b *testing.B) {
			b.Logf("%d bytes in the file", st.File.SavedBytes)
			report(b, opts, benchmarkPods)
		})
	}
}
