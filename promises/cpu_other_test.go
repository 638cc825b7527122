//go:build !unix

package promises_test

import "time"

// processTime is 0 where the process's CPU time is not available.
func processTime() time.Duration { return 0 }
