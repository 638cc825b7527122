//go:build unix

package proto

import (
	"syscall"
	"time"
)

// processTime is the CPU time of the process. On a busy machine it is more reliable than the clock.
func processTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
