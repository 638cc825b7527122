package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// readyTimeout is many times what a start takes on a busy machine.
	readyTimeout = 2 * time.Minute
	// readyInterval is the polling interval. There is no event to wait for.
	readyInterval = 20 * time.Millisecond
	// maxAnswer limits what is read of a response; a real one has a few kilobytes.
	maxAnswer = 64 << 10
)

// waitReady returns when /readyz of the server in kubeconfig reports that it is ready: the watch caches are
// filled, and the RBAC roles exist. A timeout error includes the server's last response.
func waitReady(ctx context.Context, kubeconfig []byte) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	for {
		err := askReady(ctx, client, config.Host)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("the API server is not ready after %v: %w; see the log", readyTimeout, err)
		}
	}
}

// askReady checks once. If the server responds, the error names the failing checks.
func askReady(ctx context.Context, client *http.Client, server string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/readyz?verbose", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if response.StatusCode == http.StatusOK || err != nil {
		return err
	}
	return fmt.Errorf("%s: %s", response.Status, failedChecks(string(body)))
}

// failedChecks returns the lines of failing checks in a verbose response.
func failedChecks(answer string) string {
	var failed []string
	for line := range strings.Lines(answer) {
		if strings.HasPrefix(line, "[-]") {
			failed = append(failed, strings.TrimSpace(line))
		}
	}
	if len(failed) == 0 {
		return strings.TrimSpace(answer)
	}
	return strings.Join(failed, "; ")
}
