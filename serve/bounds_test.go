package serve

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/tidingstest"
)

var bounds = flag.Int("bounds", 3000, "how many selectors and tokens TestBounds uses, and a tenth as many watches")

// maxGrowth is how much memory a replica may keep of requests that have ended: upstream's cache of reviews has 8192
// entries, and no other cache counts requests.
const maxGrowth = 32 << 20

// TestBounds sends many requests of which each has something of its own to be remembered: watches that are dropped, of
// a node each; selectors; tokens. Nothing of them is left but what is bounded.
func TestBounds(t *testing.T) {
	f := newReviewed(t, &reviewer{}, 1, tidingstest.ServerOptions{}, Options{
		Resources: []string{"pods"}, reviewTTL: 50 * time.Millisecond,
	})
	f.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}})
	r := f.replicas[0]
	eventually(t, func() bool { return r.resources[0].Collection.Stats().Objects == 1 })
	const pods = "/api/v1/namespaces/default/pods?resourceVersion=0"
	send := func(token, path string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		request.Header.Set("Authorization", "Bearer "+token)
		w := &dropping{ResponseRecorder: httptest.NewRecorder(), drop: cancel}
		func() {
			defer func() { _ = recover() }() // how a handler breaks off an answer
			r.ServeHTTP(w, request)
		}()
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	send("user", pods)
	heap, goroutines := heapAfterGC(), runtime.NumGoroutine()
	for what, test := range map[string]struct {
		n    int
		send func(i int)
	}{
		"watches": {*bounds / 10, func(i int) {
			send("user", fmt.Sprintf("%s&watch=true&fieldSelector=spec.nodeName%%3Dnode-%d", pods, i))
		}},
		"selectors": {*bounds, func(i int) { send("user", fmt.Sprintf("%s&labelSelector=n%%3Dn-%d", pods, i)) }},
		"tokens":    {*bounds, func(i int) { send(fmt.Sprintf("user-%d", i), pods) }},
	} {
		var next atomic.Int64
		var work sync.WaitGroup
		for range 8 {
			work.Go(func() {
				for i := int(next.Add(1)); i <= test.n && !t.Failed(); i = int(next.Add(1)) {
					test.send(i)
				}
			})
		}
		work.Wait()
		time.Sleep(2 * r.options.reviewTTL) // in which what is remembered of callers expires
		send("last", pods)
		grown := heapAfterGC() - heap
		t.Logf("%d %s: %d KiB more", test.n, what, grown>>10)
		if grown > maxGrowth {
			t.Errorf("%d %s leave %d MiB behind", test.n, what, grown>>20)
		}
	}
	eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+20 })
	if n := r.resources[0].Collection.Stats().Topics + len(r.watches.list()); n != 0 {
		t.Errorf("%d watches are left", n)
	}
	for _, l := range r.inFlight.all() {
		if len(l.users) > 0 {
			t.Errorf("%s: users without requests: %v", l.kind, l.users)
		}
	}
}

// dropping is a client that goes away once its watch has begun.
type dropping struct {
	*httptest.ResponseRecorder
	drop context.CancelFunc
}

func (d *dropping) Flush() { d.drop() }

func heapAfterGC() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what a pool has let go at the first
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
