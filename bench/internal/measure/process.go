package measure

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuTime returns the CPU time that the process has used so far, in user and kernel mode.
func cpuTime() (time.Duration, error) {
	usage, err := resources()
	return used(usage), err
}

func resources() (usage syscall.Rusage, err error) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return usage, fmt.Errorf("read CPU time: %w", err)
	}
	return usage, nil
}

func used(usage syscall.Rusage) time.Duration {
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// peakMemory returns the maximum resident size of the process, in bytes; residentMemory returns the current one.
func peakMemory() (float64, error)     { return memoryStatus("VmHWM:") }
func residentMemory() (float64, error) { return memoryStatus("VmRSS:") }

func memoryStatus(field string) (float64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), field); ok {
			kilobytes, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 64)
			return kilobytes * 1024, err
		}
	}
	return 0, fmt.Errorf("read memory: %s has no %s", f.Name(), field)
}

// newMemory is how much memory newPageCost touches.
const newMemory = 64 << 20

// newPageCost is the CPU that the first touch of a page of new memory takes: the kernel's work, and
// in a virtual machine that of the host, which differs widely between machines.
func newPageCost() (time.Duration, error) {
	memory, err := newMapping(newMemory)
	if err != nil {
		return 0, err
	}
	defer func() { _ = syscall.Munmap(memory) }()
	before, err := cpuTime()
	if err != nil {
		return 0, err
	}
	page := os.Getpagesize()
	for i := 0; i < len(memory); i += page {
		memory[i] = 1
	}
	after, err := cpuTime()
	return (after - before) / time.Duration(len(memory)/page), err
}

// newMapping returns memory that is not part of the Go heap.
func newMapping(size int) ([]byte, error) {
	memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map memory: %w", err)
	}
	return memory, nil
}

// heap returns the state of the heap after collections that leave no garbage: the second one frees what the
// first has released from pools and finalizers.
func heap() runtime.MemStats {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats
}

// cost is what an activity cost.
type cost struct {
	cpu     time.Duration
	wall    time.Duration
	mallocs uint64
	bytes   uint64 // allocated
	pages   int64  // of memory, touched for the first time
	gc      collections
}

// collections are statistics of the garbage collector.
type collections struct {
	cycles  uint64
	cpu     time.Duration // up to the end of the last cycle
	longest time.Duration // pause; the upper bound of its histogram bucket
	pauses  *metrics.Float64Histogram
}

const (
	gcCycles = "/gc/cycles/total:gc-cycles"
	gcCPU    = "/cpu/classes/gc/total:cpu-seconds"
	gcPauses = "/sched/pauses/total/gc:seconds"
)

// readCollections returns the totals of the process, without the longest pause.
func readCollections() collections {
	samples := []metrics.Sample{{Name: gcCycles}, {Name: gcCPU}, {Name: gcPauses}}
	metrics.Read(samples)
	return collections{
		cycles: samples[0].Value.Uint64(), cpu: time.Duration(samples[1].Value.Float64() * float64(time.Second)),
		pauses: samples[2].Value.Float64Histogram(),
	}
}

// since returns the difference from before.
func (c collections) since(before collections) collections {
	out := collections{cycles: c.cycles - before.cycles, cpu: c.cpu - before.cpu}
	for i, count := range c.pauses.Counts {
		if count > before.pauses.Counts[i] && !math.IsInf(c.pauses.Buckets[i+1], 1) {
			out.longest = time.Duration(c.pauses.Buckets[i+1] * float64(time.Second))
		}
	}
	return out
}

// spend measures f. If profile is not empty it also writes a CPU profile of f there, which adds some cost.
func spend(profile string, f func() error) (out cost, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	collected := readCollections()
	stop, err := startProfile(profile)
	if err != nil {
		return cost{}, err
	}
	began, err := resources()
	start := time.Now()
	if err == nil {
		err = f()
	}
	wall := time.Since(start)
	ended, cpuErr := resources()
	if err := errors.Join(err, cpuErr, stop()); err != nil {
		return cost{}, err
	}
	runtime.ReadMemStats(&after)
	return cost{
		cpu: used(ended) - used(began), wall: wall, pages: ended.Minflt - began.Minflt,
		mallocs: after.Mallocs - before.Mallocs, bytes: after.TotalAlloc - before.TotalAlloc,
		gc: readCollections().since(collected),
	}, nil
}

// startProfile starts a CPU profile, which the returned function stops. Without a path it does nothing.
func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	out, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		return nil, errors.Join(fmt.Errorf("profile: %w", err), out.Close())
	}
	return func() error { pprof.StopCPUProfile(); return out.Close() }, nil
}

// per returns d/n in microseconds.
func per(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n) }

func micros(d time.Duration) float64 { return per(d, 1) }
