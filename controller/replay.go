package controller

import (
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/workqueue"
)

// replay passes the keys that the cache's objects map to to enqueue. Only the caches of this project can be read. Another
// one is subscribed to once more, for its initial list: as nobody can tell when that has been delivered, all its keys are
// enqueued, and remove is to be called when the next replay has begun.
func (w *watch[T]) replay(c *Controller, enqueue enqueueFunc) (remove func(), err error) {
	if w.mapper == nil && !w.ownKeys {
		return nil, nil
	}
	of, ok := intake.InternalsOf(w.cache).(interface {
		Keys() iter.Seq[object.Key]
		Held(string) iter.Seq[metav1.Object]
	})
	switch {
	case !ok && w.ownKeys:
		return w.cache.HandleKeys(c.name, func(key object.Key, _ object.DeltaType, initial bool) {
			if initial {
				c.enqueue(key, workqueue.Low)
			}
		})
	case !ok:
		return w.cache.HandleDeltas(c.name, func(d object.Delta[T]) {
			if d.Initial {
				w.handle(c, d, nil)
			}
		})
	case w.ownKeys:
		for key := range of.Keys() {
			enqueue(key, workqueue.Low)
		}
	default:
		for held := range of.Held("") {
			if obj, ok := held.(T); ok {
				d := object.Delta[T]{Type: object.Added, Key: object.KeyOf(obj), Object: obj, Initial: true}
				w.handle(c, d, enqueue)
			}
		}
	}
	return nil, nil
}
