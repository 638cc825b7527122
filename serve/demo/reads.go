package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// kubectlAgent is the user agent of reads like kubectl's.
const kubectlAgent = "demo-kubectl"

// showReads sends what kubectl would, and prints how each is answered.
func showReads(ctx context.Context, out *printer, config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.UserAgent = kubectlAgent
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	const path = "/api/v1/namespaces/" + namespace + "/pods"
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	for _, read := range []struct {
		command, path, accept string
		code                  int
		contains              string
	}{
		{"get pods -o yaml", path + "?limit=500", "application/json", http.StatusOK, podName(pods - 1)},
		{"get pod pod-007 -o yaml", path + "/" + podName(7), "application/json", http.StatusOK, podName(7)},
		{"get pods -l round=0 --field-selector status.phase=Pending",
			path + "?labelSelector=round%3D0&fieldSelector=status.phase%3DPending&limit=500", "application/json",
			http.StatusOK, podName(0)},
		{"get pods (a Table: forwarded)", path + "?limit=500", table, http.StatusOK, "columnDefinitions"},
		{"get secrets (which the reader may not)", "/api/v1/namespaces/" + namespace + "/secrets", "application/json",
			http.StatusForbidden, "cannot list"},
	} {
		began := time.Now()
		code, text, err := get(ctx, client, config.Host+read.path, read.accept)
		if err != nil {
			return fmt.Errorf("%s: %w", read.command, err)
		}
		if code != read.code || !strings.Contains(text, read.contains) {
			return fmt.Errorf("%s: %d, without %q: %s", read.command, code, read.contains, text)
		}
		out.say("   %-60s %d, %d kB, %v", read.command, code, len(text)>>10, time.Since(began).Round(time.Millisecond))
	}
	return nil
}

func get(ctx context.Context, client *http.Client, url, accept string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Accept", accept)
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}
