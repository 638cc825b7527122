//go:build !unix

package proto

import "time"

// processTime is 0 where the CPU time of the process is unknown.
func processTime() time.Duration { return 0 }
