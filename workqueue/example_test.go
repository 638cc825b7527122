package workqueue_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/tidings/tidings/workqueue"
)

// A worker takes items until the queue is shut down; failed items are retried later.
func Example() {
	q := workqueue.New(workqueue.Options[string]{})
	var workers sync.WaitGroup
	workers.Go(func() {
		for {
			item, err := q.Get(context.Background())
			if err != nil {
				return
			}
			fmt.Println("working on", item)
			q.Forget(item) // it worked; otherwise q.AddRateLimited(item)
			q.Done(item)
		}
	})
	q.Add("web-1")
	q.Add("web-2")
	if err := q.ShutDownWithDrain(context.Background()); err != nil {
		fmt.Println(err)
	}
	workers.Wait()
	// Output:
	// working on web-1
	// working on web-2
}

// Namespaces take turns, and changes take precedence over the initial list.
func ExampleQueue_AddWith() {
	namespace := func(key string) string {
		ns, _, _ := strings.Cut(key, "/")
		return ns
	}
	q := workqueue.New(workqueue.Options[string]{Flow: namespace})
	q.AddWith("shop/from-the-initial-list", workqueue.AddOptions{Priority: workqueue.Low})
	q.Add("noisy/1")
	q.Add("noisy/2")
	q.Add("shop/web")
	for q.Len() > 0 {
		key, _ := q.Get(context.Background())
		fmt.Println(key)
		q.Done(key)
	}
	// Output:
	// noisy/1
	// shop/web
	// noisy/2
	// shop/from-the-initial-list
}
