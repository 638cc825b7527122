//go:build !unix

package cli

import "io"

// readerGone cannot detect it on this system; the next write will.
func readerGone(io.Writer) bool { return false }
