//go:build unix

package tidings_test

import (
	"syscall"
	"time"
)

// processTime is the CPU time that the process has used. On a busy machine it says more than the clock.
func processTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
