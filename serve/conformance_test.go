package serve

import (
	"log/slog"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings/tidingstest/conformance"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

// TestConformance runs the scripts, whose answers were recorded from a real kube-apiserver, against
// a replica in front of one.
func TestConformance(t *testing.T) {
	c := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true})
	ca, proxy, err := ClusterAuthentication(t.Context(), kubernetes.NewForConfigOrDie(c.Config()))
	if err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, Options{
		Config: c.Config(), ClientCA: ca, FrontProxy: proxy, Impersonate: true,
		Logger:    slog.New(slog.NewTextHandler(t.Output(), nil)),
		Resources: []string{"pods", "configmaps", "deployments.apps", "jobs.batch", "nodes", "namespaces", "events"},
	})
	token := serviceAccount(t, c.Config(), "conformance", everything, everyPath)
	for name, config := range map[string]func(*testing.T){
		"token":       func(t *testing.T) { conformance.Run(t, r.config(token)) },
		"certificate": func(t *testing.T) { conformance.Run(t, r.config(c.Config())) },
	} {
		before := r.counts.answered.Load()
		t.Run(name, config)
		t.Logf("%s: answered %d from memory, forwarded %d",
			name, r.counts.answered.Load()-before, r.counts.forwarded.Load())
		if r.counts.answered.Load() == before {
			t.Error("nothing was answered from memory")
		}
	}
}
