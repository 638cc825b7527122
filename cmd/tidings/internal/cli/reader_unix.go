//go:build unix

package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// readerGone reports whether w is a pipe or socket that nobody reads any longer. A write would fail too, but there
// may be nothing to write for hours.
func readerGone(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	poll := []unix.PollFd{{Fd: int32(file.Fd())}} // requests no events: errors are always reported
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0 && poll[0].Revents&unix.POLLERR != 0
}
