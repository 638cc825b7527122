package conformance

import (
	"flag"
	"os"
	"testing"

	"github.com/tidings/tidings/tidingstest"
	"github.com/tidings/tidings/tidingstest/controlplane"
	"k8s.io/client-go/rest"
)

var update = flag.Bool("update", false, "write what the servers answer into the scripts")

func TestServer(t *testing.T) {
	tidingstest.CheckLeaks(t)
	config := tidingstest.NewServer(t, tidingstest.ServerOptions{}).Config()
	if !*update {
		Run(t, config)
		return
	}
	record(t, config, func(st *step) {
		st.alternative = ""
		if st.differs != "" && st.observed != st.want {
			st.alternative = st.observed
		}
	})
}

func TestControlPlane(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real API server")
	}
	c := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true})
	if !*update {
		Run(t, c.Config())
		return
	}
	record(t, c.Config(), func(st *step) { st.want = st.observed })
}

// record runs the scripts and writes them back after calling edit for each step.
func record(t *testing.T, config *rest.Config, edit func(*step)) {
	run(t, config, func(s *script) {
		for _, st := range s.steps {
			edit(st)
		}
		if err := os.WriteFile(s.name, []byte(s.text()), 0o644); err != nil {
			t.Error(err)
		}
	})
}
