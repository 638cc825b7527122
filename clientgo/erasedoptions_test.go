package clientgo

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// TestErasedWatchKnowsWhatIsHeld: the source of a type finds the object that an informer of Objects holds, and what it was decoded from.
func TestErasedWatchKnowsWhatIsHeld(t *testing.T) {
	held, stop := &corev1.Pod{}, errors.New("that was all")
	for _, known := range []bool{true, false} {
		from := erased[*corev1.Pod]{source.Funcs[*corev1.Pod]{WatchFunc: func(_ context.Context, opts source.WatchOptions[*corev1.Pod]) (source.Stream[*corev1.Pod], error) {
			switch {
			case !known && (opts.Previous != nil || opts.PreviousData != nil):
				t.Error("something is known of objects")
			case known:
				if o, ok := opts.Previous(tidings.Key{Name: "x"}); !ok || o != held || string(opts.PreviousData(o)) != "encoded" {
					t.Errorf("held is %v, %t, decoded from %q", o, ok, opts.PreviousData(o))
				}
			}
			return nil, stop
		}}}
		var opts source.WatchOptions[tidings.Object]
		if known {
			opts.Previous = func(key tidings.Key) (tidings.Object, bool) { return held, key.Name == "x" }
			opts.PreviousData = func(o tidings.Object) []byte {
				if o != held {
					return nil
				}
				return []byte("encoded")
			}
		}
		if _, err := from.Watch(t.Context(), opts); !errors.Is(err, stop) {
			t.Error(err)
		}
	}
}
