package source_test

import (
	"runtime"
	"testing"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// TestSourceKeepsNoObjects: what the caller does not hold any more is free, whatever the decoder knows.
func TestSourceKeepsNoObjects(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		s.Create(pod("a", "x"))
		from := newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods})
		var seen []weak.Pointer[corev1.Pod]
		look := func() {
			objects, _ := mustList(t, from, source.ListOptions[*corev1.Pod]{})
			stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{SendInitialEvents: true, Timeout: time.Hour, Previous: held([]*corev1.Pod(nil))})
			events := read(t, stream, 2)
			seen = append(seen, weak.Make(objects[0]), weak.Make(events[0].Object))
		}
		look()
		runtime.GC()
		for i, p := range seen {
			if p.Value() != nil {
				t.Errorf("object %d is kept alive", i)
			}
		}
		runtime.KeepAlive(from)
	})
}
