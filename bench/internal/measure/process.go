package measure

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuTime is what the process has used so far, in user and kernel mode.
func cpuTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// peakMemory is the largest resident size that the process has had, in bytes.
func peakMemory() (float64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("read peak memory: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kilobytes, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 64)
			return kilobytes * 1024, err
		}
	}
	return 0, fmt.Errorf("read peak memory: %s has no VmHWM", f.Name())
}

// heap is the state of the heap after collections that leave nothing to collect: the second one takes what the
// first has emptied pools and finalizers of.
func heap() runtime.MemStats {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats
}

// cost is what an activity took.
type cost struct {
	cpu     time.Duration
	wall    time.Duration
	mallocs uint64
	bytes   uint64 // allocated
}

// spend measures f.
func spend(f func() error) (cost, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, err := cpuTime()
	if err != nil {
		return cost{}, err
	}
	start := time.Now()
	if err := f(); err != nil {
		return cost{}, err
	}
	wall := time.Since(start)
	end, err := cpuTime()
	runtime.ReadMemStats(&after)
	return cost{
		cpu: end - cpu, wall: wall,
		mallocs: after.Mallocs - before.Mallocs, bytes: after.TotalAlloc - before.TotalAlloc,
	}, err
}

// per is a duration in microseconds for each of n.
func per(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n) }

// profiled calls f and writes a CPU profile of it to the file, unless path is empty.
func profiled(path string, f func() error) error {
	if path == "" {
		return f()
	}
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		return errors.Join(fmt.Errorf("profile: %w", err), out.Close())
	}
	err = f()
	pprof.StopCPUProfile()
	return errors.Join(err, out.Close())
}
