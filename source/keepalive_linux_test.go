package source

import (
	"net"
	"net/http"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPlainConnectionsAreProbed asks the kernel how it probes an unencrypted connection.
func TestPlainConnectionsAreProbed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := plainTransport().(*http.Transport).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for option, want := range map[int]int{unix.TCP_KEEPIDLE: 30, unix.TCP_KEEPINTVL: 5, unix.TCP_KEEPCNT: 3} {
		var got int
		if err := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option) }); err != nil || got != want {
			t.Errorf("option %d is %d, %v; want %d", option, got, err, want)
		}
	}
}
