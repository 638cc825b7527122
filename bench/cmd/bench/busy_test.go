package main

import (
	"io"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/tidings/tidings/bench/internal/engine"
	"github.com/tidings/tidings/tidingstest"
)

// TestBusy measures first syncs of few objects, of a server of tests.
func TestBusy(t *testing.T) {
	if testing.Short() {
		t.Skip("runs measurements of 120 informers")
	}
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{Loopback: true})
	s := &session{size: tiny, log: io.Discard}
	s.size.busy = 2 * busyInformers
	if err := fill(t.Context(), server.Config(), busyInformers, s.size.busy); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"test": {Server: server.Config().Host}},
		Contexts:       map[string]*api.Context{"test": {Cluster: "test"}},
		CurrentContext: "test",
	}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	for _, j := range s.size.busyJobs(kubeconfig) {
		if err := s.measure(t.Context(), j, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, metric := range []string{"busy: time", "busy: CPU", "busy paged: time"} {
		for _, e := range engine.Both {
			if got, ok := s.samples.Get(e, metric); !ok || got.Median <= 0 {
				t.Errorf("%s, %s: %+v", e, metric, got)
			}
		}
	}
}
