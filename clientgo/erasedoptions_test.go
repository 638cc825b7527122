package clientgo

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
)

// watching is a source that watches by calling the function.
type watching func(source.WatchOptions[*corev1.Pod]) (source.Stream[*corev1.Pod], error)

func (w watching) Watch(_ context.Context, opts source.WatchOptions[*corev1.Pod]) (source.Stream[*corev1.Pod], error) {
	return w(opts)
}

func (w watching) List(context.Context, source.ListOptions[*corev1.Pod], func(*corev1.Pod) error) (source.ListResult, error) {
	return source.ListResult{}, errors.New("it only watches")
}

// TestErasedWatchKnowsWhatIsHeld: the typed source finds the object that an informer of Objects holds, and lets it decode in the source's
// place.
func TestErasedWatchKnowsWhatIsHeld(t *testing.T) {
	held, decoded, stop := &corev1.Pod{}, &corev1.Pod{}, errors.New("that was all")
	decode := func(previousData []byte) (*corev1.Pod, error) {
		if string(previousData) != "encoded" {
			return nil, stop
		}
		return decoded, nil
	}
	for _, known := range []bool{true, false} {
		from := erased[*corev1.Pod]{watching(func(opts source.WatchOptions[*corev1.Pod]) (source.Stream[*corev1.Pod], error) {
			switch {
			case !known && (opts.Previous != nil || opts.Decode != nil):
				t.Error("something is known of objects")
			case known:
				if o, ok := opts.Previous(tidings.Key{Name: "x"}); !ok || o != held {
					t.Errorf("held is %v, %t", o, ok)
				}
				if o, err := opts.Decode([]byte("data"), held, decode); o != decoded || err != nil {
					t.Errorf("%v is decoded, %v", o, err)
				}
				if o, err := opts.Decode([]byte("broken"), nil, decode); o != nil || err != stop {
					t.Errorf("%v is decoded, %v", o, err)
				}
			}
			return nil, stop
		})}
		var opts source.WatchOptions[tidings.Object]
		if known {
			opts.Previous = func(key tidings.Key) (tidings.Object, bool) { return held, key.Name == "x" }
			opts.Decode = func(data []byte, o tidings.Object, decode func([]byte) (tidings.Object, error)) (tidings.Object, error) {
				switch {
				case string(data) == "data" && o == held:
					return decode([]byte("encoded"))
				case string(data) == "broken" && o == nil:
					return decode(nil)
				}
				return nil, errors.New("asked for something else")
			}
		}
		if _, err := from.Watch(t.Context(), opts); !errors.Is(err, stop) {
			t.Error(err)
		}
	}
}
