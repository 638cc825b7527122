package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/journal"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// A program keeps the last hour of its pods, from a handler of their informer, and looks up what one of them was.
func Example() {
	ctx := context.Background()
	history, err := journal.New(journal.Options{Resource: pods, MaxAge: time.Hour, MaxBytes: 32 << 20})
	if err != nil {
		log.Fatal(err)
	}
	changes := watch.NewFakeWithChanSize(2, false)
	informer, err := tidings.NewInformer(webPods(changes), tidings.InformerOptions[*corev1.Pod]{Name: "pods"})
	if err != nil {
		log.Fatal(err)
	}
	kept := make(chan struct{})
	keep := func(kind object.DeltaType, pod *corev1.Pod) {
		data, err := json.Marshal(pod)
		if err == nil {
			err = history.Add(journal.Change{
				// The store has the change before the handler is told of it. Its version never goes back, while pods
				// that were missed arrive in the order of their names.
				Version: informer.Snapshot().ResourceVersion(), Time: time.Now(),
				Key: object.KeyOf(pod), UID: pod.UID, Type: kind, Object: data,
			})
		}
		if err != nil {
			log.Print(err)
		}
		kept <- struct{}{}
	}
	_, err = informer.AddHandler(tidings.HandlerFuncs[*corev1.Pod]{
		Add:    func(pod *corev1.Pod, _ bool) { keep(object.Added, pod) },
		Update: func(_, pod *corev1.Pod) { keep(object.Updated, pod) },
		Delete: func(gone tidings.Tombstone[*corev1.Pod]) { keep(object.Deleted, gone.Object) },
	}, tidings.HandlerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if err := informer.Start(ctx); err != nil {
		log.Fatal(err)
	}
	<-kept
	changes.Modify(web("2", "web:2"))
	<-kept
	before := time.Now()
	changes.Modify(web("3", "web:3"))
	<-kept

	for _, moment := range []time.Time{before, time.Now()} {
		change, err := history.At(object.Key{Namespace: "shop", Name: "web"}, journal.Moment(moment))
		if err != nil {
			log.Fatal(err)
		}
		var pod corev1.Pod
		if err := json.Unmarshal(change.Object, &pod); err != nil {
			log.Fatal(err)
		}
		fmt.Println(pod.Spec.Containers[0].Image, "at version", change.Version)
	}
	if err := informer.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// web:2 at version 2
	// web:3 at version 3
}

func web(version, image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: version},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Image: image}}},
	}
}

// webPods stands in for an API server with one pod, which changes follow.
func webPods(changes watch.Interface) source.ListerWatcher[*corev1.Pod] {
	return source.Funcs[*corev1.Pod]{
		ListFunc: func(_ context.Context, _ source.ListOptions[*corev1.Pod], each func(*corev1.Pod) error) (
			source.ListResult, error,
		) {
			return source.ListResult{ResourceVersion: "1"}, each(web("1", "web:1"))
		},
		WatchFunc: func(
			ctx context.Context, opts source.WatchOptions[*corev1.Pod],
		) (source.Stream[*corev1.Pod], error) {
			if opts.SendInitialEvents {
				return nil, errors.ErrUnsupported
			}
			return source.NewStream[*corev1.Pod](ctx, changes), nil
		},
	}
}
