package measure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// newClient returns a client that trusts the authority. It has its own connections, so that the engine's are not
// already open.
func newClient(ca []byte) (*http.Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("ask the server: there is no certificate of its authority")
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}, nil
}

// get gets the JSON at path from the server.
func (r *run) get(ctx context.Context, path string, into any) error {
	body, err := r.request(ctx, http.MethodGet, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// post sends a POST to path.
func (r *run) post(ctx context.Context, path string) error {
	_, err := r.request(ctx, http.MethodPost, path)
	return err
}

func (r *run) request(ctx context.Context, method, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.Config.Server.Host+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the server: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	if err != nil {
		return nil, fmt.Errorf("ask the server for %s: %w", path, err)
	}
	return body, nil
}
