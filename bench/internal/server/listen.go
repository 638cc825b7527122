package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// Running is a server that listens on the loopback address, with TLS and without.
type Running struct {
	Address Address

	servers [2]*http.Server
	serving sync.WaitGroup
	errs    [2]error
}

// Listen starts serving.
func Listen(handler http.Handler) (*Running, error) {
	const loopback = "127.0.0.1"
	certificate, ca, err := NewIdentity(loopback)
	if err != nil {
		return nil, err
	}
	var listeners [2]net.Listener
	for i := range listeners {
		if listeners[i], err = net.Listen("tcp", net.JoinHostPort(loopback, "0")); err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
	}
	r := &Running{Address: Address{Host: "https://" + listeners[0].Addr().String(), CA: ca, Plain: "http://" + listeners[1].Addr().String()}}
	r.servers[0] = &http.Server{Handler: handler, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	r.servers[1] = &http.Server{Handler: handler}
	r.serving.Go(func() { r.errs[0] = r.servers[0].ServeTLS(listeners[0], "", "") })
	r.serving.Go(func() { r.errs[1] = r.servers[1].Serve(listeners[1]) })
	return r, nil
}

// Close closes all connections and waits until the server has stopped.
func (r *Running) Close() error {
	for _, s := range r.servers {
		_ = s.Close() // the error of Serve says more
	}
	r.serving.Wait()
	for i, err := range r.errs {
		if errors.Is(err, http.ErrServerClosed) {
			r.errs[i] = nil
		}
	}
	return errors.Join(r.errs[:]...)
}
