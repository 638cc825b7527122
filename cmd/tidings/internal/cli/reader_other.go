//go:build !unix

package cli

import "io"

// readerGone cannot tell here: the next write will.
func readerGone(io.Writer) bool { return false }
