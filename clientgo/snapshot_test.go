package clientgo_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// "Every query against the local cache is answered entirely from one snapshot of the cache's state.
// Thus, the result of a List call will not contain two entries with the same namespace and name."
// An object that moves from one value of an index to another is found under exactly one of them by
// one query.
func TestOneSnapshot(t *testing.T) {
	bothEngines(t, func(t *testing.T, e engine) {
		src := newPods(t)
		for i := range 20 {
			src.Add(labeled(fmt.Sprintf("a/pod-%d", i), "x"))
		}
		inf := e.informer(src, &corev1.Pod{}, 0, cache.Indexers{"label": byLabel})
		run(t, inf)
		synctest.Wait()
		written := make(chan struct{})
		go func() {
			defer close(written)
			for i := range 400 {
				src.Modify(labeled(fmt.Sprintf("a/pod-%d", i%20), string("xyz"[i/20%3])))
			}
		}()
		for moving := true; moving; {
			select {
			case <-written:
				moving = false
			default:
			}
			anyValue, err := inf.GetIndexer().Index("label", labeled("a/other", "xyz"))
			must(t, err)
			for what, items := range map[string][]any{"List": inf.GetStore().List(), "Index": anyValue} {
				keys := map[string]bool{}
				for _, key := range keysOf(t, items) {
					keys[key] = true
				}
				if len(items) != 20 || len(keys) != 20 {
					t.Fatalf("%s finds %d objects with %d keys, want 20", what, len(items), len(keys))
				}
			}
		}
	})
}
