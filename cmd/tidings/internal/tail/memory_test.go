package tail

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/filter"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/internal/wire/wiretest"
	"github.com/tidings/tidings/source/recording"
	"github.com/tidings/tidings/tidingstest"
)

var leases = resources.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
	Kind:                 "Lease", Namespaced: true,
}

// churn is an hour of a busy cluster: every second a pod comes, changes twice and goes, and a lease is renewed.
type churn struct {
	server *tidingstest.Server
	n      int
}

func (c *churn) run(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		c.n++
		pod := c.pod("Pending")
		c.server.Create(pod)
		c.server.Update(c.pod("Running"))
		c.server.Update(c.pod("Succeeded"))
		c.server.Delete(pod)
		c.server.Update(c.lease())
		time.Sleep(time.Second)
		synctest.Wait()
		if c.n%60 == 0 {
			c.server.Compact() // otherwise it keeps every change
		}
	}
}

func (c *churn) pod(phase string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "status": map[string]any{"phase": phase},
		"metadata": map[string]any{"namespace": "shop", "name": fmt.Sprint("pod-", c.n), "uid": fmt.Sprint(c.n)},
	}}
}

func (c *churn) lease() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"namespace": "shop", "name": "leader"},
		"spec":     map[string]any{"renewTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")},
	}}
}

// counted is an output that counts its bytes.
type counted struct{ bytes int }

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return len(p), nil
}

// TestMemoryIsFlat: what tail holds does not grow over an hour of churn, neither where it follows and records, nor
// where it compares, hides and shows. One state that stays of each pod would be three million bytes.
func TestMemoryIsFlat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		c := &churn{server: server}
		server.Create(c.lease())
		text := news.Text{Limits: news.Limits{Changes: 30, Value: 200}}
		quiet, err := filter.Flags{}.Compile(text.Event)
		if err != nil {
			t.Fatal(err)
		}
		recorder, err := recording.NewRecorder(io.Discard, recording.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var shown counted
		screen := cli.NewScreen(&shown, io.Discard)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- Run(ctx, server.Config(), screen, Options{
				Resources: []resources.Target{{Resource: pods}, {Resource: leases}}, Namespaces: []string{""},
				Printer: text, Filter: quiet, Recorder: recorder, News: news.Options{States: true},
			})
		}()
		c.run(10 * time.Minute)
		before := wiretest.LiveHeap()
		c.run(50 * time.Minute)
		if after := wiretest.LiveHeap(); after > before+1<<20 {
			t.Errorf("%d bytes after ten minutes, %d after an hour", before, after)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		screen.Close(time.Second)
		if err := recorder.Close(); err != nil {
			t.Error(err)
		}
		if n := quiet.HiddenCount(); n < 3000 || shown.bytes < c.n*100 {
			t.Errorf("%d changes were hidden of %d renewals, and %d bytes shown of %d pods", n, c.n, shown.bytes, c.n)
		}
	})
}
