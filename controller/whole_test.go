package controller_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/client"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/operator"
	"github.com/tidings/tidings/tidingstest"
)

// run labels each ConfigMap with the number of its entries.
func run(ctx context.Context, config *rest.Config) error {
	op, err := operator.New(config, operator.Options{})
	if err != nil {
		return err
	}
	maps, err := tidings.Informer[*corev1.ConfigMap](op.Factory, tidings.Scope{})
	if err != nil {
		return err
	}
	writes, err := client.New[*corev1.ConfigMap](op.Config, corev1.SchemeGroupVersion.WithResource("configmaps"))
	if err != nil {
		return err
	}
	reconcile := func(ctx context.Context, key tidings.Key) (controller.Result, error) {
		cached, ok := maps.Get(key)
		if !ok {
			return controller.Result{}, nil // it was deleted
		}
		want := fmt.Sprint(len(cached.Data))
		if cached.Labels["entries"] == want {
			return controller.Result{}, nil
		}
		m := cached.DeepCopy() // objects in a cache are read-only
		m.Labels = map[string]string{"entries": want}
		_, err := writes.Update(ctx, m) // not reconciled again before the cache has seen this
		return controller.Result{}, err // an error is logged, and the key retried
	}
	c := controller.New("entries", reconcile, controller.Options{})
	if err := errors.Join(controller.WatchKeys(c, maps), op.Manager.Add(c)); err != nil {
		return err
	}
	return op.Run(ctx)
}

// The program that the package's documentation begins with.
func Example_wholeController() {
	ctx, stop := context.WithCancel(context.Background())
	server := tidingstest.NewServer(exampleTB{}, tidingstest.ServerOptions{Admit: func(_ context.Context, write *tidingstest.Admission) error {
		if write.Object != nil && write.Object.GetLabels()["entries"] != "" {
			fmt.Println(write.Object.GetName(), "has entries:", write.Object.GetLabels()["entries"])
			stop()
		}
		return nil
	}})
	defer server.Stop()
	server.Create(lateConfigMap("prices"))
	fmt.Println(run(ctx, server.Config()))
	// Output:
	// prices has entries: 1
	// <nil>
}

// exampleTB is a test that an example pretends to be.
type exampleTB struct{ testing.TB }

func (exampleTB) Helper()                  {}
func (exampleTB) Cleanup(func())           {}
func (exampleTB) Errorf(string, ...any)    {}
func (exampleTB) Logf(string, ...any)      {}
func (exampleTB) Context() context.Context { return context.Background() }

// TestDocumentationBeginsWithAProgram that is the one above.
func TestDocumentationBeginsWithAProgram(t *testing.T) {
	doc, code := must(os.ReadFile("doc.go")), must(os.ReadFile("whole_test.go"))
	_, program, _ := strings.Cut(string(code), "\nfunc run(")
	program, _, _ = strings.Cut("func run("+program, "\n}\n")
	program = "//\t" + strings.ReplaceAll(program+"\n}", "\n", "\n//\t")
	if program = strings.ReplaceAll(program, "//\t\n", "//\n"); !strings.Contains(string(doc), program) {
		t.Errorf("doc.go lacks:\n%s", program)
	}
}
