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
	// listenPatience is how long a port that is asked for may be in use. After a
	// restart it can be held for a moment by an outgoing connection of another
	// process that was given the same number.
	listenPatience = 2 * time.Second
	listenInterval = 50 * time.Millisecond
)

// Systems hand out ports from 32768 or higher to outgoing connections, and to
// listeners that take any. A port below that is likely still free when the
// control plane is started again and needs it back.
const (
	firstFreePort = 20000
	freePorts     = 10000
	freePortTries = 100
)

// listen opens the port on the loopback address, or a free one for 0. The open
// listener is handed to the API server, so nobody can take the port in between.
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

// listenAnywhere opens a free port.
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

// listenAt opens the port as soon as it is free.
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
