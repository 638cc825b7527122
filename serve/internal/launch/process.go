package launch

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of CPU time in /proc, which is the same on all Linux systems.
const clockTick = 10 * time.Millisecond

// CPU returns the CPU time that a process has used, as getrusage counts it.
func CPU(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:])) // the name may contain spaces
	const user, system = 11, 12                                               // counted from after the name
	ticks := 0
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// Resident returns the resident memory of a process, in bytes.
func Resident(pid int) (float64, error) { return status(pid, "VmRSS:") }

// Highest returns the most resident memory that a process has had, in bytes.
func Highest(pid int) (float64, error) { return status(pid, "VmHWM:") }

// status returns a number of bytes in the status of a process.
func status(pid int, field string) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kilobytes * 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no %s", pid, strings.TrimSuffix(field, ":"))
}
