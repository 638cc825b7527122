package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tidings/tidings/serve/internal/launch"
)

const (
	// manyBase is the part of the memory budget that does not depend on the number of pods, and manyEach what each
	// adds.
	manyBase = 64 << 20
	manyEach = 1200
	// manyChunks is in how many places of the list pods are compared with what the server made, and manyGets how many
	// in each.
	manyChunks = 20
	manyGets   = 50
)

// many measures the memory of a replica with very many pods.
func (w *world) many(ctx context.Context) (rows []row, err error) {
	if w.Many == 0 {
		return nil, nil
	}
	server, err := listenFlying(w.Many)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	kubeconfig, remove, err := kubeconfigFor(server.address)
	if err != nil {
		return nil, err
	}
	defer remove()
	launcher, err := launch.New(ctx, kubeconfig)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, launcher.Close()) }()
	budget := int64(manyBase + manyEach*w.Many)
	began := time.Now()
	replica, err := launcher.Start(ctx, "--resources", "pods", "--memory-budget", strconv.FormatInt(budget, 10))
	if err != nil {
		return nil, err
	}
	defer replica.Kill()
	took := time.Since(began)
	m := manyMeasurement{server: server, config: launcher.Config(replica.Address(), "reader")}
	if err := m.check(ctx); err != nil {
		return nil, err
	}
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	highest, err := launch.Highest(replica.PID())
	what := fmt.Sprintf("%d pods that a server makes on the fly, with a budget of %.0f MB: heap in use",
		w.Many, float64(budget)/1e6)
	return []row{
		{what, "", fmt.Sprintf("%.0f MB", m.heap/1e6), "", "≤ 2.5 GB for 2,000,000"},
		{"the same: memory of the objects, as the replica reports it", "", fmt.Sprintf("%.0f MB, %.0f bytes each",
			m.objectBytes/1e6, m.objectBytes/m.objects), "", ""},
		{"the same: highest resident memory, while they were listed", "", fmt.Sprintf("%.0f MB", highest/1e6), "", ""},
		{"the same: time until the replica was ready", "", show(took), "", ""},
	}, err
}

// kubeconfigFor writes a kubeconfig for an API server.
func kubeconfigFor(address string) (file string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "tidings-bench-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) } // it stays in the folder for temporary files
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: address}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "replica"}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	file = filepath.Join(dir, "kubeconfig")
	if err = clientcmd.WriteToFile(*config, file); err != nil {
		remove()
	}
	return file, remove, err
}

// manyMeasurement is what is read from the replica.
type manyMeasurement struct {
	server                     *flying
	config                     *rest.Config
	heap, objects, objectBytes float64
}

// check compares some pods all over the list with what the server made of them.
func (m *manyMeasurement) check(ctx context.Context) error {
	clients, err := newClients(m.config, 1)
	if err != nil {
		return err
	}
	defer closeClients(clients)
	chunks := (m.server.pods + chunk - 1) / chunk
	for c := 0; c < chunks; c += max(1, chunks/manyChunks) {
		made := makeChunk(c*chunk, m.server.pods)
		for i := 0; i < len(made); i += max(1, len(made)/manyGets) {
			pod := made[i]
			url := fmt.Sprintf("%s/api/v1/namespaces/%s/pods/%s?resourceVersion=0", m.config.Host, pod.Namespace,
				pod.Name)
			body, err := open(ctx, clients[0], url)
			if err != nil {
				return err
			}
			got, err := io.ReadAll(body)
			body.Close()
			if err != nil {
				return err
			}
			want, err := podEncoding.Encode(pod)
			if err != nil {
				return err
			}
			if !bytes.Equal(got, want) {
				return fmt.Errorf("%s/%s is another pod than was sent", pod.Namespace, pod.Name)
			}
		}
	}
	return nil
}

// read reads the replica's metrics.
func (m *manyMeasurement) read(ctx context.Context) error {
	clients, err := newClients(m.config, 1)
	if err != nil {
		return err
	}
	defer closeClients(clients)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.config.Host+"/metrics", nil)
	if err != nil {
		return err
	}
	response, err := clients[0].Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	for name, into := range map[string]*float64{
		"go_memstats_heap_inuse_bytes": &m.heap, `apiserver_resource_objects{group="",resource="pods"}`: &m.objects,
		`tidings_serve_memory_bytes{resource="pods",what="objects"}`: &m.objectBytes,
	} {
		_, after, ok := strings.Cut(string(text), "\n"+name+" ")
		value, _, _ := strings.Cut(after, "\n")
		if *into, err = strconv.ParseFloat(value, 64); err != nil || !ok {
			return fmt.Errorf("the replica has no metric %s: %w", name, err)
		}
	}
	if int(m.objects) != m.server.pods {
		return fmt.Errorf("the replica has %.0f pods, not %d", m.objects, m.server.pods)
	}
	return nil
}
