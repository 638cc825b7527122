package serve

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidings/tidings/serve/internal/replica"
	"github.com/tidings/tidings/tidingstest"
)

// TestHungServer has an API server that takes requests and does not answer: who wants the most recent state is told so
// in time.
func TestHungServer(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	var hangs atomic.Bool
	v := &reviewer{hangs: func(*http.Request) <-chan struct{} {
		if hangs.Load() {
			return never
		}
		return nil
	}}
	f := newReviewed(t, v, 1, tidingstest.ServerOptions{}, Options{})
	f.Create(configMap("x", "a"))
	f.synced(t)
	user := f.replicas[0].config(as(f.config, "user"))
	hangs.Store(true)
	for _, path := range []string{
		"/api/v1/namespaces/default/configmaps/x", "/api/v1/configmaps", "/api/v1/configmaps?limit=1&pretty=true",
	} {
		began := time.Now()
		code, text := answerTo(t, user, path, nil)
		if code != http.StatusGatewayTimeout || !strings.Contains(text, "resourceVersion=0") {
			t.Errorf("%s: %d %s after %v", path, code, text, time.Since(began))
		}
	}
	if code, text := answerTo(t, user, "/api/v1/configmaps?resourceVersion=0", nil); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
}

// TestSlowAnswerIsWaitedFor has an API server that takes long for one answer, and shows meanwhile that it is there.
func TestSlowAnswerIsWaitedFor(t *testing.T) {
	t.Parallel()
	slow := make(chan struct{})
	v := &reviewer{hangs: func(r *http.Request) <-chan struct{} {
		if strings.HasSuffix(r.URL.Path, "/x") {
			return slow
		}
		return nil
	}}
	f := newReviewed(t, v, 1, tidingstest.ServerOptions{}, Options{})
	f.Create(configMap("x", "a"))
	f.synced(t)
	time.AfterFunc(2*replica.AskPatience+replica.AskPatience/2, func() { close(slow) })
	user := f.replicas[0].config(as(f.config, "user"))
	if code, text := answerTo(t, user, "/api/v1/namespaces/default/configmaps/x", nil); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
}
