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

// TestSourceForgetsObjects: the decoder keeps the last value of each object, to take over from it what does not change.
// What the server says is gone must not be kept, whether a watch tells of it or a list by not having it.
func TestSourceForgetsObjects(t *testing.T) {
	for name, see := range map[string]func(*testing.T, *tidingstest.Server, *source.HTTP[*corev1.Pod]) (gone, stays weak.Pointer[corev1.Pod]){
		"deleted in a watch": func(t *testing.T, s *tidingstest.Server, from *source.HTTP[*corev1.Pod]) (gone, stays weak.Pointer[corev1.Pod]) {
			stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{SendInitialEvents: true, Timeout: time.Hour})
			events := read(t, stream, 3)
			s.Delete(pod("a", "gone"))
			last := read(t, stream, 1)[0] // its state when it went, which replaces the one before
			return weak.Make(last.Object), weak.Make(events[1].Object)
		},
		"missing in a list": func(t *testing.T, s *tidingstest.Server, from *source.HTTP[*corev1.Pod]) (gone, stays weak.Pointer[corev1.Pod]) {
			objects, _ := mustList(t, from, source.ListOptions[*corev1.Pod]{})
			s.Delete(pod("a", "gone"))
			known := func(_, _, _, _ []byte) (*corev1.Pod, bool) { return objects[1], true }
			mustList(t, from, source.ListOptions[*corev1.Pod]{Known: known})
			return weak.Make(objects[0]), weak.Make(objects[1])
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
				s.Create(pod("a", "gone"))
				s.Create(pod("a", "stays"))
				from := newHTTP[*corev1.Pod](t, s, source.Target{Resource: pods})
				gone, stays := see(t, s, from)
				runtime.GC()
				if gone.Value() != nil {
					t.Error("an object that is gone is kept alive")
				}
				if stays.Value() == nil {
					t.Error("the last value of an object is not kept, so that nothing can be taken over from it")
				}
				runtime.KeepAlive(from)
			})
		})
	}
}
