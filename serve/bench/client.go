package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

const (
	path     = "/api/v1/pods"
	protobuf = "application/vnd.kubernetes.protobuf"
)

// sharing is how many watchers share a connection.
const sharing = 100

// newClients returns clients for n watchers, so that no more than sharing use a connection.
func newClients(config *rest.Config, n int) ([]*http.Client, error) {
	clients := make([]*http.Client, (n+sharing-1)/sharing)
	for i := range clients {
		c, err := config.TransportConfig()
		if err != nil {
			return nil, err
		}
		tlsConfig, err := transport.TLSConfigFor(c)
		if err != nil {
			return nil, err
		}
		rt, err := transport.HTTPWrappersForConfig(c,
			&http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true})
		if err != nil {
			return nil, err
		}
		clients[i] = &http.Client{Transport: rt}
	}
	return clients, nil
}

func closeClients(clients []*http.Client) {
	for _, c := range clients {
		c.CloseIdleConnections()
	}
}

// open sends a GET, and returns the body of its answer.
func open(ctx context.Context, client *http.Client, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", protobuf)
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000)) // what there is of it
		return nil, fmt.Errorf("%s: %s: %s", url, response.Status, text)
	}
	return response.Body, nil
}

// download reads an answer to its end, and returns its size.
func download(ctx context.Context, client *http.Client, url string) (int64, error) {
	body, err := open(ctx, client, url)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	return io.Copy(io.Discard, body)
}

// events calls each for every event of a watch until it returns false or the watch ends.
func events(body io.Reader, each func() bool) error {
	in := bufio.NewReaderSize(body, 16<<10)
	for {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return err
		}
		if _, err := in.Discard(int(binary.BigEndian.Uint32(head[:]))); err != nil {
			return err
		}
		if !each() {
			return nil
		}
	}
}
