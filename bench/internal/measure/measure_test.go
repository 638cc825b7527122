package measure_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/bench/internal/server"
)

const (
	pods  = 60
	burst = 50
	rate  = 20
	each  = 5 * time.Millisecond
)

// newServer returns the address of a small server that ends with the test.
func newServer(t *testing.T, c server.Config) string {
	t.Helper()
	handler, err := server.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

// run measures and checks that the metrics are there and within reason.
func run(t *testing.T, spec measure.Spec, positive ...string) measure.Metrics {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	metrics, err := spec.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range positive {
		if metrics[name] <= 0 {
			t.Errorf("%s is %v, want more than 0; all: %v", name, metrics[name], metrics)
		}
	}
	return metrics
}

func TestStack(t *testing.T) {
	phases := []server.Phase{server.Relist, server.Burst, server.BurstSorted, server.Rate, server.BurstAgain}
	for _, encoding := range []server.Encoding{server.Protobuf, server.JSON} {
		for _, name := range []engine.Name{engine.ClientGo, engine.Tidings} {
			t.Run(string(encoding)+"/"+string(name), func(t *testing.T) {
				host := newServer(t, server.Config{Encoding: encoding, Pods: pods, Burst: burst, Rate: rate})
				metrics := run(t, measure.Spec{Stack: &measure.Stack{
					Engine: name, Phases: phases, Config: engine.Config{Host: host, Encoding: encoding},
				}}, "sync CPU", "sync RSS", "sync allocations", "heap", "heap objects", "burst CPU", "burst-again CPU", "rate CPU", "relist CPU each")
				if p50, p99 := metrics["latency p50"], metrics["latency p99"]; p50 <= 0 || p99 < p50 {
					t.Errorf("latency: median %v µs, 99th percentile %v µs", p50, p99)
				}
				if size := metrics["wire bytes"]; size < 3000 || size > 10_000 {
					t.Errorf("a pod is %v bytes on the wire", size)
				}
				want := map[engine.Name]float64{engine.ClientGo: 1, engine.Tidings: 0}[name]
				if got := metrics["relist notifications"]; got != want {
					t.Errorf("a relist gave %v notifications for each object, want %v", got, want)
				}
			})
		}
	}
}

func TestBytes(t *testing.T) {
	host := newServer(t, server.Config{Encoding: server.Protobuf, Pods: pods, Burst: burst})
	run(t, measure.Spec{Stack: &measure.Stack{
		Engine: engine.Bytes, Phases: []server.Phase{server.Burst}, Config: engine.Config{Host: host, Encoding: server.Protobuf},
	}}, "sync CPU", "burst CPU", "heap")
}

func TestChurn(t *testing.T) {
	host := newServer(t, server.Config{Encoding: server.Protobuf, Pods: pods, Churn: 4000, Generation: 100})
	run(t, measure.Spec{Stack: &measure.Stack{
		Engine: engine.Tidings, Phases: []server.Phase{server.Churn}, Config: engine.Config{Host: host, Encoding: server.Protobuf},
	}}, "heap at 010%")
}

func TestLoops(t *testing.T) {
	t.Setenv("KUBE_FEATURE_WatchListClient", "false")
	for _, name := range []engine.Name{engine.ClientGo, engine.Tidings} {
		t.Run(string(name), func(t *testing.T) {
			run(t, measure.Spec{Writes: &measure.Writes{Engine: name, Objects: 100, InFlight: 10, Duration: each}}, "writes/s", "write CPU")
			run(t, measure.Spec{Writes: &measure.Writes{Engine: name, Objects: 100, InFlight: 100, Readers: 2, Duration: each}}, "writes/s")
			run(t, measure.Spec{Delivery: &measure.Delivery{Engine: name, Events: 2000}})
			run(t, measure.Spec{Batches: &measure.Batches{Engine: name, Objects: 100, Batch: 10, Duration: each}}, "store writes/s, batch 10, readers 0")
			run(t, measure.Spec{Batches: &measure.Batches{Engine: name, Objects: 100, Batch: 10, Readers: 2, Duration: each}}, "store writes/s, batch 10, readers 2")
			run(t, measure.Spec{Index: &measure.Index{Engine: name, Objects: 1000, Values: 10, Duration: each}}, "index")
			queue := run(t, measure.Spec{Queue: &measure.Queue{Engine: name, Duration: each}}, "queue")
			if name == engine.Tidings && queue["queue allocations"] != 0 {
				t.Errorf("a warm queue allocates %v times in 100 cycles, want never", queue["queue allocations"])
			}
		})
	}
}

func TestNothingToMeasure(t *testing.T) {
	if _, err := (measure.Spec{}).Run(t.Context()); err == nil {
		t.Error("an empty spec gave no error")
	}
}

func TestGivesUp(t *testing.T) {
	host := newServer(t, server.Config{Encoding: server.Protobuf, Pods: pods, Burst: burst})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := measure.Stack{
		Engine: engine.Tidings, Phases: []server.Phase{server.Rate}, Config: engine.Config{Host: host, Encoding: server.Protobuf},
	}.Run(ctx)
	if err == nil || !strings.Contains(err.Error(), "rate") && !strings.Contains(err.Error(), "sync") {
		t.Errorf("got %v, want an error that names the step", err)
	}
}
