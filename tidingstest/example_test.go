package tidingstest_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// A test starts a server, fills it, makes it misbehave, and checks which requests it got.
func ExampleServer() {
	t := &exampleT{} // in a test, its *testing.T
	defer t.end()
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	server.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	server.Inject(tidingstest.List,
		tidingstest.Fault{Err: apierrors.NewUnauthorized("the first list fails")},
		tidingstest.Fault{}, // the second request succeeds
	)
	nodes := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Nodes()
	for range 2 {
		list, err := nodes.List(context.Background(), metav1.ListOptions{})
		fmt.Println(len(list.Items), err)
	}
	fmt.Println(server.Count(tidingstest.List), "lists")
	// Output:
	// 0 the first list fails
	// 1 <nil>
	// 2 lists
}

// Any source can be made to misbehave: here that of a fake client, whose first two requests fail. The informer
// recovers.
func ExampleFaultySource() {
	ctx := context.Background()
	clients := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	src, err := source.FromClient[*corev1.Node, *corev1.NodeList](clients.CoreV1().Nodes(), source.Scope{})
	if err != nil {
		log.Fatal(err)
	}
	faulty := tidingstest.NewFaultySource(src)
	faulty.Inject(tidingstest.Any,
		tidingstest.SourceFault{Err: syscall.ECONNREFUSED},
		tidingstest.SourceFault{Err: apierrors.NewServiceUnavailable("starting")},
	)
	faulty.Inject(tidingstest.List, tidingstest.SourceFault{After: 1, End: tidingstest.Cut}) // the first list after these
	nodes, err := tidings.NewInformer(faulty, tidings.InformerOptions[*corev1.Node]{Options: tidings.Options{
		Backoff: reflector.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond}, Logger: slog.New(slog.DiscardHandler),
	}})
	if err != nil {
		log.Fatal(err)
	}
	if err := nodes.Start(ctx); err != nil {
		log.Fatal(err)
	}
	if err := nodes.WaitForSync(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(nodes.Snapshot().Len(), "node;", faulty.FaultCounts())
	if err := nodes.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: 1 node; map[cut:1 refused:2]
}

// exampleT replaces the *testing.T that an example does not have.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (t *exampleT) Helper()                           {}
func (t *exampleT) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (t *exampleT) end() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}
