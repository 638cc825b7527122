package measure_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/bench/internal/corpus"
	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/bench/internal/measure"
	"github.com/tidings/tidings/bench/internal/server"
)

const each = 5 * time.Millisecond

// newServer returns the address of a small server that ends with the test.
func newServer(t *testing.T, c server.Config) server.Address {
	t.Helper()
	handler, err := server.New(c)
	if err != nil {
		t.Fatal(err)
	}
	running, err := server.Listen(handler)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Close(); err != nil {
			t.Error(err)
		}
	})
	return running.Address
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
	phases := []server.Phase{measure.Idle, server.Relist, server.Burst, server.BurstSorted, server.Edits, server.Sustained, server.BurstAgain, server.Rate, measure.Settle}
	for _, encoding := range []server.Encoding{server.Protobuf, server.JSON} {
		address := newServer(t, server.Config{Encoding: encoding, Corpus: corpus.Pods, Objects: 60, Burst: 50, Sustained: 60, Rate: 100})
		for _, name := range engine.Both {
			t.Run(string(encoding)+"/"+string(name), func(t *testing.T) {
				dir := t.TempDir()
				profile := filepath.Join(dir, "burst")
				metrics := run(t, measure.Spec{Stack: &measure.Stack{
					Engine: name, Phases: phases, IdleFor: each, Profiles: map[server.Phase]string{server.Burst: profile},
					Config: engine.Config{Server: address, Corpus: corpus.Pods, Encoding: encoding},
				}}, "sync CPU", "sync RSS", "sync allocations", "heap", "heap objects", "goroutines", "burst CPU", "edits CPU",
					"sustained CPU", "burst-again CPU", "rate CPU", "relist CPU each", "settled RSS")
				for _, less := range [][2]string{{"latency p50", "latency p99"}, {"latency p99", "latency p99.9"}, {"latency p99.9", "latency max"}} {
					if metrics[less[0]] <= 0 || metrics[less[0]] > metrics[less[1]] {
						t.Errorf("%s is %v µs, %s is %v µs", less[0], metrics[less[0]], less[1], metrics[less[1]])
					}
				}
				if size := metrics["wire bytes"]; size < 3000 || size > 10_000 {
					t.Errorf("a pod is %v bytes on the wire", size)
				}
				want := map[engine.Name]float64{engine.ClientGo: 1, engine.Tidings: 0}[name]
				if got := metrics["relist notifications"]; got != want {
					t.Errorf("a relist gave %v notifications for each object, want %v", got, want)
				}
				if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
					t.Errorf("no profile: %v", err)
				}
			})
		}
	}
}

// TestCorpora lets both engines hold every corpus, with TLS and without, whole and in parts.
func TestCorpora(t *testing.T) {
	for _, name := range corpus.All {
		address := newServer(t, server.Config{Encoding: server.Protobuf, Corpus: name, Objects: 40, Burst: 30})
		for _, which := range engine.Both {
			for _, plain := range []bool{false, true} {
				run(t, measure.Spec{Stack: &measure.Stack{
					Engine: which, Phases: []server.Phase{server.Burst, server.Edits},
					Config: engine.Config{Server: address, Corpus: name, Encoding: server.Protobuf, Plain: plain},
				}}, "heap", "burst CPU", "edits CPU")
			}
		}
	}
}

func TestParts(t *testing.T) {
	address := newServer(t, server.Config{Encoding: server.Protobuf, Corpus: corpus.Pods, Objects: 40, Parts: 10})
	for _, which := range engine.Both {
		run(t, measure.Spec{Stack: &measure.Stack{
			Engine: which, Phases: []server.Phase{measure.Idle, measure.Settle}, IdleFor: each,
			Config: engine.Config{Server: address, Corpus: corpus.Pods, Encoding: server.Protobuf, Parts: 10},
		}}, "heap total", "goroutines")
	}
}

func TestBytes(t *testing.T) {
	address := newServer(t, server.Config{Encoding: server.Protobuf, Corpus: corpus.Pods, Objects: 60, Burst: 50})
	run(t, measure.Spec{Stack: &measure.Stack{
		Engine: engine.Bytes, Phases: []server.Phase{server.Burst},
		Config: engine.Config{Server: address, Corpus: corpus.Pods, Encoding: server.Protobuf},
	}}, "sync CPU", "burst CPU", "heap")
}

func TestChurn(t *testing.T) {
	address := newServer(t, server.Config{Encoding: server.Protobuf, Corpus: corpus.Pods, Objects: 60, Churn: 4000, Generation: 100})
	run(t, measure.Spec{Stack: &measure.Stack{
		Engine: engine.Tidings, Phases: []server.Phase{server.Churn},
		Config: engine.Config{Server: address, Corpus: corpus.Pods, Encoding: server.Protobuf},
	}}, "heap at 010%")
}

func TestDay(t *testing.T) {
	address := newServer(t, server.Config{Encoding: server.Protobuf, Corpus: corpus.Pods, Objects: 60, Day: 100})
	for _, name := range engine.Both {
		metrics := run(t, measure.Spec{Stack: &measure.Stack{
			Engine: name, Phases: []server.Phase{measure.Day},
			Config: engine.Config{Server: address, Corpus: corpus.Pods, Encoding: server.Protobuf},
		}}, measure.DayHeap(0), measure.DayHeap(server.DaySteps), "most heap")
		if metrics["most heap"] < metrics[measure.DayHeap(server.DaySteps/2)] {
			t.Errorf("the most is %v, which is less than at noon", metrics)
		}
	}
}

// TestFolded reads folded objects, and decodes those that have generated code.
func TestFolded(t *testing.T) {
	for _, encoding := range []server.Encoding{server.Protobuf, server.JSON} {
		address := newServer(t, server.Config{Encoding: encoding, Corpus: corpus.Pods, Objects: 200, Burst: 50})
		metrics := run(t, measure.Spec{Stack: &measure.Stack{
			Engine: engine.Tidings, Phases: []server.Phase{server.Burst, measure.Folded},
			Config: engine.Config{Server: address, Corpus: corpus.Pods, Encoding: encoding, Budget: 100_000},
		}}, "get each", "list each", "folded part")
		for _, read := range []string{"get", "list"} {
			if decoded := metrics[read+" decoded each"]; (decoded > 0) != (encoding == server.Protobuf) {
				t.Errorf("%s: decoding takes %v µs", encoding, decoded)
			}
		}
	}
}

// TestResumed saves in one run and starts from that in the next ones, open and folded, which reads
// next to nothing from the server.
func TestResumed(t *testing.T) {
	const n = 300
	address := newServer(t, server.Config{Encoding: server.Protobuf, Corpus: corpus.Pods, Objects: n})
	stack := measure.Stack{
		Engine: engine.Tidings, Config: engine.Config{Server: address, Corpus: corpus.Pods, Encoding: server.Protobuf, Dir: t.TempDir()},
	}
	listed := run(t, measure.Spec{Stack: &stack}, "sync bytes")
	stack.Resumed = true
	for _, budget := range []int64{0, 1 << 20} {
		stack.Config.Budget = budget
		resumed := run(t, measure.Spec{Stack: &stack}, "sync time", "sync CPU", "served time")
		if resumed["sync bytes"] > listed["sync bytes"]/10 || resumed["served time"] > resumed["sync time"] {
			t.Errorf("with a budget of %d: %v; with a list: %v", budget, resumed, listed)
		}
	}
	stack.Config.Dir = t.TempDir()
	if _, err := stack.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "0 objects of 300") {
		t.Errorf("nothing was saved: %v", err)
	}
	stack.Engine = engine.ClientGo
	if _, err := stack.Run(t.Context()); err == nil {
		t.Error("client-go has saved something")
	}
}

func TestLoops(t *testing.T) {
	t.Setenv("KUBE_FEATURE_WatchListClient", "false")
	for _, name := range engine.Both {
		t.Run(string(name), func(t *testing.T) {
			run(t, measure.Spec{Writes: &measure.Writes{Engine: name, Objects: 100, InFlight: 10, Duration: each}}, "writes/s", "write CPU")
			run(t, measure.Spec{Writes: &measure.Writes{Engine: name, Objects: 100, InFlight: 100, Readers: 2, Duration: 10 * each}}, "writes/s", "lists/s")
			paced := run(t, measure.Spec{Writes: &measure.Writes{Engine: name, Objects: 100, InFlight: 10, Readers: 1, ListsPerSecond: 100, Duration: 40 * each}}, "writes/s", "lists/s")
			if got := paced["lists/s"]; got > 110 {
				t.Errorf("%v lists a second, want at most 100", got)
			}
			run(t, measure.Spec{Delivery: &measure.Delivery{Engine: name, Events: 2000}})
			run(t, measure.Spec{Batches: &measure.Batches{Engine: name, Objects: 100, Batch: 1, Duration: each}}, "store writes/s, batch 1, readers 0")
			run(t, measure.Spec{Batches: &measure.Batches{Engine: name, Objects: 100, Batch: 10, Readers: 2, Duration: each}}, "store writes/s, batch 10, readers 2")
			run(t, measure.Spec{Reads: &measure.Reads{Engine: name, Objects: 1000, Nodes: 10, Duration: each}}, "get", "list", "index")
			queue := run(t, measure.Spec{Queue: &measure.Queue{Engine: name, Duration: each}}, "queue")
			if name == engine.Tidings && queue["queue allocations"] != 0 {
				t.Errorf("a warm queue allocates %v times in 100 cycles, want never", queue["queue allocations"])
			}
		})
	}
}

func TestDeaf(t *testing.T) {
	for _, name := range engine.Both {
		metrics, err := measure.Deaf{Engine: name, Lasts: 10 * time.Minute, Seed: 1}.Run(t)
		if err != nil {
			t.Fatal(err)
		}
		if part := metrics["cut: deaf"]; part < 0 || part > 100 || metrics["cut: came back"] < 1 || metrics["faults: happened"] < 1 {
			t.Errorf("got %v", metrics)
		}
	}
}

// TestReaders: what readers cost is measured for all that is read, and what nobody reads is folded unless it is kept open.
func TestReaders(t *testing.T) {
	idle := map[bool]float64{}
	for _, readers := range []measure.Readers{
		{Engine: engine.ClientGo}, {Engine: engine.Tidings}, {Engine: engine.Tidings, KeepOpen: true},
	} {
		readers.Objects, readers.Part = 2000, 100
		metrics, err := readers.Run(t)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range measure.Readings {
			if metrics[name+": CPU"] < 0 || metrics[name+": heap"] <= 0 {
				t.Errorf("%s: got %v", name, metrics)
			}
		}
		if readers.Engine == engine.Tidings {
			idle[readers.KeepOpen] = metrics[measure.Readings[0]+": heap"]
		}
	}
	if idle[false] > idle[true]/2 {
		t.Errorf("%v bytes a pod, and %v with everything kept open", idle[false], idle[true])
	}
}

func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("links two programs")
	}
	address := newServer(t, server.Config{Encoding: server.Protobuf, Corpus: corpus.Pods, Objects: 10})
	program := filepath.Join(t.TempDir(), "program")
	for _, name := range []string{"small-tidings", "small-client-go"} {
		if out, err := exec.Command("go", "build", "-o", program, "github.com/tidings/tidings/bench/cmd/"+name).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		run(t, measure.Spec{Program: &measure.Program{Path: program, Server: address}}, "binary", "start time", "start CPU", "start RSS")
	}
}

func TestNothingToMeasure(t *testing.T) {
	if _, err := (measure.Spec{}).Run(t.Context()); err == nil {
		t.Error("an empty spec gave no error")
	}
}

func TestGivesUp(t *testing.T) {
	address := newServer(t, server.Config{Encoding: server.Protobuf, Corpus: corpus.Pods, Objects: 60, Rate: 10_000})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := measure.Stack{
		Engine: engine.Tidings, Phases: []server.Phase{server.Rate},
		Config: engine.Config{Server: address, Corpus: corpus.Pods, Encoding: server.Protobuf},
	}.Run(ctx)
	if err == nil || !strings.Contains(err.Error(), "rate") && !strings.Contains(err.Error(), "sync") {
		t.Errorf("got %v, want an error that names the step", err)
	}
}

// TestReflector: a bare reflector is measured like an informer, from the list through events.
func TestReflector(t *testing.T) {
	address := newServer(t, server.Config{Encoding: server.Protobuf, Corpus: corpus.Pods, Objects: 60, Burst: 50})
	for _, which := range []engine.Name{engine.ClientGo, engine.Through} {
		run(t, measure.Spec{Stack: &measure.Stack{
			Engine: which, Phases: []server.Phase{server.Burst, measure.Settle},
			Config: engine.Config{
				Server: address, Corpus: corpus.Pods, Encoding: server.Protobuf, Way: engine.BareReflector,
			},
		}}, "sync CPU", "burst CPU", "heap")
	}
}
