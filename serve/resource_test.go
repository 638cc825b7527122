package serve

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/tidingstest"
)

// TestNothingIsKnownOfTheServer: an API server that does not say what it has is not taken for one that lacks the
// resource, which would be in order.
func TestNothingIsKnownOfTheServer(t *testing.T) {
	var asked atomic.Int64
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "starting", http.StatusServiceUnavailable)
	}))
	t.Cleanup(h.Close)
	config := &rest.Config{Host: h.URL}
	r := startReplicaWithout(t, Options{Config: config, Resources: []string{"configmaps"}})
	eventually(t, func() bool { return asked.Load() > 0 })
	_, err := discover(t.Context(), discovery.NewDiscoveryClientForConfigOrDie(config), "configmaps")
	if !errors.Is(err, errNotDiscovered) {
		t.Error(err)
	}
	first := asked.Load()
	eventually(t, func() bool { return asked.Load() > first }) // the replica has heard the first answer
	code, text := answerTo(t, r.config(config), "/readyz?verbose", nil)
	if code != http.StatusServiceUnavailable || !strings.Contains(text, "[-] configmaps: the API server has not said") {
		t.Errorf("%d %s", code, text)
	}

	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{})
	_, err = discover(t.Context(), discovery.NewDiscoveryClientForConfigOrDie(f.config), "widgets.example.com")
	if err == nil || errors.Is(err, errNotDiscovered) {
		t.Errorf("a resource that does not exist: %v", err)
	}
}

// TestRemovedWhileAsked has a resource be removed, and come back as something else, while a request for it waits to be
// allowed: nothing of the new objects is taken for one of the old kind.
func TestRemovedWhileAsked(t *testing.T) {
	c := newCollection(journalLimits{bytes: 1 << 20, age: time.Minute})
	c.Replace(object.Items[*codec.Raw](nil), "1")
	addMap(t, c, "x", "2")
	v, key := c.view(nil, nil), object.Key{Namespace: "default", Name: "x"}
	if o, err := v.Get(key); o == nil || err != nil {
		t.Fatal(o, err)
	}
	c.remove()
	if o, err := v.Get(key); o != nil || !errors.Is(err, protocol.ErrGone) {
		t.Error(o, err)
	}
	c.Replace(object.Items[*codec.Raw](nil), "3")
	addMap(t, c, "x", "4")
	if o, err := v.Get(key); o != nil || !errors.Is(err, protocol.ErrGone) {
		t.Error(o, err)
	}
	if _, err := v.List(v.Version()); !errors.Is(err, protocol.ErrCompacted) {
		t.Error(err)
	}
	if tail := v.After(0); !tail.Lost {
		t.Error(tail)
	}
}

// TestWorkEndsWithResource: requests that come while a resource ends start nothing that would outlive it.
func TestWorkEndsWithResource(t *testing.T) {
	f := newFreshness(t.Context(), newCollection(journalLimits{}), nil)
	f.wait()
	if f.start(func() { t.Error("started") }) {
		t.Error("work is said to have started")
	}
	f.look(t.Context(), 1)
	f.expect(1, func() {}, func() {})
	if _, err := f.mostRecent(t.Context()); err != errForward {
		t.Error(err)
	}
	f.work.Wait()
}
