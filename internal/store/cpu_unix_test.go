//go:build unix

package store_test

import (
	"syscall"
	"time"
)

// cpuTime is the CPU time of the process. On a busy machine it is more reliable than the clock.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
