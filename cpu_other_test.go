//go:build !unix

package tidings_test

import "time"

// processTime is 0 where the CPU time of the process is not known.
func processTime() time.Duration { return 0 }
