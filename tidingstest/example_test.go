package tidingstest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings/tidingstest"
)

// A test gets a server, fills it, lets it misbehave, and looks at what was asked of it.
func ExampleServer() {
	t := &exampleT{} // in a test, its *testing.T
	defer t.end()
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	server.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	server.Inject(tidingstest.List,
		tidingstest.Fault{Err: apierrors.NewUnauthorized("the first list fails")},
		tidingstest.Fault{}, // the second goes well
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

// A recorder replays the state and checks the order of what it is told.
// exampleT stands for the *testing.T that an example does not have.
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
