package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"time"
)

const (
	// listenPatience is how long a requested port may be in use. After a restart, an outgoing connection of
	// another process can hold it for a moment.
	listenPatience = 2 * time.Second
	listenInterval = 50 * time.Millisecond
)

// Systems assign ports from 32768 or higher to outgoing connections, and to listeners without a fixed port. A
// port below that is likely still free when the control plane restarts and needs it again.
const (
	firstFreePort = 20000
	freePorts     = 10000
	freePortTries = 100
)

// listen listens on the port of the loopback address, or on a free one for 0. The open listener is passed to
// the API server, so nobody can take the port in between.
func listen(ctx context.Context, port int) (net.Listener, error) {
	switch {
	case port < 0 || port > 65535:
		return nil, fmt.Errorf("--port %d: ports are 0 (a free one) to 65535", port)
	case port == 0:
		return listenAnywhere(ctx)
	default:
		return listenAt(ctx, port)
	}
}

// listenAnywhere listens on a free port.
func listenAnywhere(ctx context.Context) (listener net.Listener, err error) {
	for range freePortTries {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstFreePort+rand.IntN(freePorts)))
		listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return listener, err
}

// listenAt listens on the port as soon as it is free.
func listenAt(ctx context.Context, port int) (net.Listener, error) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	deadline := time.Now().Add(listenPatience)
	for {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return listener, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s is in use by another program: stop that one, or choose another --port (0 takes a free one)", address)
		}
		select {
		case <-time.After(listenInterval):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
