//go:build unix

package promises_test

import (
	"syscall"
	"time"
)

// processTime is the CPU time used by the process. On a busy machine it is more meaningful than wall-clock time.
func processTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
