package tidings_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tidings/tidings"
)

// The program of the README: it follows the pods of a namespace and finds those of a node.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", clientcmd.RecommendedHomeFile)
	if err != nil {
		log.Print(err)
		return
	}
	factory, err := tidings.NewFactory(config, tidings.Options{})
	if err != nil {
		log.Print(err)
		return
	}
	pods, err := tidings.Informer[*corev1.Pod](factory, tidings.Scope{
		Namespaces: []string{"shop"},
		Labels:     "app=web",
		Trim:       tidings.Trim{tidings.ManagedFields},
	})
	if err != nil {
		log.Print(err)
		return
	}
	byNode := pods.AddIndex("node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	_, err = pods.AddHandler(tidings.HandlerFuncs[*corev1.Pod]{
		Add: func(p *corev1.Pod, initial bool) { fmt.Println("added", p.Name) },
		Update: func(old, new *corev1.Pod) {
			fmt.Println("changed", new.Name, old.Status.Phase, "→", new.Status.Phase)
		},
		Delete: func(gone tidings.Tombstone[*corev1.Pod]) { fmt.Println("deleted", gone.Key.Name) },
	}, tidings.HandlerOptions{})
	if err != nil {
		log.Print(err)
		return
	}
	if err := factory.Start(ctx); err != nil {
		log.Print(err)
		return
	}
	if err := factory.WaitForSyncFailFast(ctx); err != nil {
		log.Print(err) // pods: forbidden: User "x" cannot list resource "pods" …; grant list and watch
		return
	}
	for p := range byNode.All("node-7") {
		fmt.Println("on node-7:", p.Name)
	}
	<-ctx.Done()
	if err := factory.Shutdown(context.Background()); err != nil {
		log.Print(err)
	}
}
