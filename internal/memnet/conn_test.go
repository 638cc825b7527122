package memnet

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
)

// TestCloseDuringPartition: an end that closes its connection reads no more from it, whether or not
// the other end has closed it too; nobody learns that before the partition ends.
func TestCloseDuringPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := Pipe()
		client.Partition(true)
		server.Close()
		read := make(chan error)
		go func() {
			_, err := client.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		select {
		case err := <-read:
			t.Errorf("got through: %v", err)
		default:
		}
		client.Close()
		if err := <-read; !errors.Is(err, net.ErrClosed) {
			t.Errorf("reading from what was closed here: %v", err)
		}
	})
}
