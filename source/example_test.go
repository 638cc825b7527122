package source_test

import (
	"context"
	"fmt"
	"io"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// A source over HTTP needs a connection and a scope. This one lists the web pods of a namespace page by page,
// without the fields that it never looks at, then watches them.
func ExampleNewHTTP() {
	ctx := context.Background()
	client, err := source.NewClient(&rest.Config{Host: "https://localhost:6443"})
	if err != nil {
		log.Fatal(err)
	}
	pods, err := source.NewHTTP[*corev1.Pod](client, source.Scope{
		Resource:  corev1.SchemeGroupVersion.WithResource("pods"),
		Namespace: "shop",
		Labels:    "app=web",
		Trim:      object.Trim{"metadata.managedFields", "status.conditions"},
	})
	if err != nil {
		log.Fatal(err)
	}
	opts := source.ListOptions[*corev1.Pod]{Limit: 500}
	var page source.ListResult
	for first := true; first || page.Continue != ""; first = false {
		page, err = pods.List(ctx, opts, func(p *corev1.Pod) error {
			fmt.Println(p.Name)
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
		opts.Continue = page.Continue
	}
	stream, err := pods.Watch(ctx, source.WatchOptions[*corev1.Pod]{ResourceVersion: page.ResourceVersion})
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	var events []source.Event[*corev1.Pod]
	for err == nil {
		events, err = stream.Next(events[:0])
		for _, e := range events {
			fmt.Println(e.Type, e.ResourceVersion)
		}
	}
	if err != io.EOF { // which is the server's timeout: watch again
		log.Fatal(err)
	}
}

// Any client of client-go is a source too, such as a fake in a test.
func ExampleFromClient() {
	clientset := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	nodes, err := source.FromClient[*corev1.Node](clientset.CoreV1().Nodes(), source.Scope{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = nodes.List(context.Background(), source.ListOptions[*corev1.Node]{}, func(n *corev1.Node) error {
		fmt.Println(n.Name)
		return nil
	})
	fmt.Println(err)
	// Output:
	// n1
	// <nil>
}

// Funcs makes a source of whatever has objects to offer.
func ExampleFuncs() {
	w := watch.NewFakeWithChanSize(1, false)
	nodes := source.Funcs[*corev1.Node]{
		ListFunc: func(_ context.Context, _ source.ListOptions[*corev1.Node], each func(*corev1.Node) error) (source.ListResult, error) {
			n1 := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "1"}}
			return source.ListResult{ResourceVersion: "1"}, each(n1)
		},
		WatchFunc: func(ctx context.Context, _ source.WatchOptions[*corev1.Node]) (source.Stream[*corev1.Node], error) {
			return source.NewStream[*corev1.Node](ctx, w), nil
		},
	}
	stream, err := nodes.Watch(context.Background(), source.WatchOptions[*corev1.Node]{})
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	w.Modify(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", ResourceVersion: "2"}})
	events, err := stream.Next(nil)
	fmt.Println(events[0].Type, events[0].Object.Name, events[0].ResourceVersion, err)
	// Output: MODIFIED n1 2 <nil>
}
