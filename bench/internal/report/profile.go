package report

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Profile is a CPU profile summarized by areas of the code.
type Profile struct {
	Title string
	Areas []Share // which divide up all of the time
	Top   []Share // functions with the most time of their own
}

// Share is a share of the whole.
type Share struct {
	Name string
	Part float64 // of 1
}

const topFunctions = 12

// areas classify samples by the first frame, from the innermost out, that has one of the prefixes. The runtime's
// come first in a stack, so that memory management and system calls are distinguished from their callers.
var areas = []struct {
	name     string
	prefixes []string
}{
	{"background garbage collection", []string{"runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge"}},
	{"allocation, including GC assist", []string{"runtime.mallocgc", "runtime.growslice", "runtime.newobject"}},
	{"system calls: reading the connection", []string{"syscall.", "internal/runtime/syscall", "runtime.netpoll", "runtime.futex"}},
	{"goroutine scheduling", []string{"runtime.schedule", "runtime.findRunnable", "runtime.park_m", "runtime.mcall", "runtime.ready"}},
	{"decoding protobuf", []string{"github.com/tidings/tidings/internal/wire/proto"}},
	{"decoding JSON", []string{"github.com/tidings/tidings/internal/wire/json", "github.com/go-json-experiment/json"}},
	{"framing and streams", []string{"github.com/tidings/tidings/source"}},
	{"store and index", []string{"github.com/tidings/tidings/internal/store"}},
	{"delta queue", []string{"github.com/tidings/tidings/deltafifo"}},
	{"informer, mutation guard and delivery", []string{"github.com/tidings/tidings.", "github.com/tidings/tidings/internal/engine"}},
	{"reflector", []string{"github.com/tidings/tidings/reflector"}},
	{"TLS", []string{"crypto/"}},
	{"HTTP", []string{"net/http", "golang.org/x/net/http2", "net.", "bufio."}},
}

// ReadProfile reads a CPU profile in the pprof format.
func ReadProfile(path, title string) (Profile, error) {
	f, err := os.Open(path)
	if err != nil {
		return Profile{}, fmt.Errorf("read a profile: %w", err)
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		return Profile{}, fmt.Errorf("read a profile: %w", err)
	}
	byArea, byFunction := map[string]float64{}, map[string]float64{}
	for _, sample := range p.Sample {
		names := stack(sample)
		if len(names) == 0 {
			continue
		}
		time := float64(sample.Value[len(sample.Value)-1])
		byArea[area(names)] += time
		byFunction[names[0]] += time
	}
	top := shares(byFunction)
	return Profile{Title: title, Areas: shares(byArea), Top: top[:min(topFunctions, len(top))]}, nil
}

// stack returns the functions of a sample, innermost first.
func stack(sample *profile.Sample) []string {
	var names []string
	for _, location := range sample.Location {
		for _, line := range location.Line {
			names = append(names, line.Function.Name)
		}
	}
	return names
}

func area(stack []string) string {
	for _, name := range stack {
		for _, a := range areas {
			if slices.ContainsFunc(a.prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
				return a.name
			}
		}
	}
	return "everything else"
}

// shares returns the parts in descending order.
func shares(times map[string]float64) []Share {
	total := 0.0
	for _, time := range times {
		total += time
	}
	var out []Share
	for name, time := range times {
		out = append(out, Share{name, time / total})
	}
	slices.SortFunc(out, func(a, b Share) int { return cmp.Or(cmp.Compare(b.Part, a.Part), cmp.Compare(a.Name, b.Name)) })
	return out
}
