package controller_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/object"
)

// configMaps is a Cache with one object in it, in place of an informer.
type configMaps struct{ only *corev1.ConfigMap }

func (c configMaps) Name() string { return "configmaps" }

func (c configMaps) HandleDeltas(_ string, fn func(object.Delta[*corev1.ConfigMap])) (func(), error) {
	fn(object.Delta[*corev1.ConfigMap]{Key: object.KeyOf(c.only), Object: c.only, Type: object.Added, Initial: true})
	return func() {}, nil
}

func (c configMaps) HandleKeys(_ string, fn func(object.Key, object.DeltaType, bool)) (func(), error) {
	fn(object.KeyOf(c.only), object.Added, true)
	return func() {}, nil
}

func (c configMaps) WaitForSync(context.Context) error { return nil }

func (c configMaps) Get(key object.Key) (*corev1.ConfigMap, bool) {
	return c.only, key == object.KeyOf(c.only)
}

func (c configMaps) ResourceVersionIn(string) string  { return c.only.ResourceVersion }
func (c configMaps) Covers(cm *corev1.ConfigMap) bool { return true }
func (c configMaps) Fresh() error                     { return nil }

// A controller prints the existing ConfigMaps.
func Example() {
	cache := configMaps{&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "prices", ResourceVersion: "7"},
		Data:       map[string]string{"tea": "3"},
	}}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	reconcile := func(_ context.Context, key object.Key) (controller.Result, error) {
		cm, ok := cache.Get(key)
		if !ok {
			return controller.Result{}, nil // it was deleted
		}
		fmt.Println(key, cm.Data)
		stop() // one is enough for an example
		return controller.Result{RequeueAfter: time.Hour}, nil
	}

	c := controller.New("printer", reconcile, controller.Options{Workers: 2})
	m := controller.NewManager(nil)
	err := errors.Join(controller.WatchKeys(c, cache), m.Add(c), m.Run(ctx))
	if err != nil {
		fmt.Println(err)
	}
	// Output: shop/prices map[tea:3]
}

// An object with an invalid spec is not worth a retry before it changes.
func ExampleTerminal() {
	validate := func(replicas int) error {
		if replicas < 0 {
			return controller.Terminal(errors.New("replicas must not be negative"))
		}
		return nil
	}
	fmt.Println(validate(-1))
	// Output: replicas must not be negative
}

// A reconciler reports what it has written, and is not called again for the key before the cache has seen that.
func ExampleWrote() {
	type client interface {
		Create(ctx context.Context, cm *corev1.ConfigMap, o metav1.CreateOptions) (*corev1.ConfigMap, error)
	}
	newReconciler := func(cache controller.Cache[*corev1.ConfigMap], client client) controller.Reconciler {
		return func(ctx context.Context, key object.Key) (controller.Result, error) {
			if _, ok := cache.Get(key); ok {
				return controller.Result{}, nil
			}
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
			created, err := client.Create(ctx, cm, metav1.CreateOptions{})
			if err != nil {
				return controller.Result{}, err
			}
			controller.Wrote(ctx, cache, created)
			return controller.Result{}, nil
		}
	}
	_ = newReconciler
}

// Of several processes with this manager, the one that holds the lease runs the controllers.
func ExampleNewLeaseElector() {
	newManager := func(config *rest.Config, controllers ...*controller.Controller) (*controller.Manager, error) {
		elector, err := controller.NewLeaseElector(config, "shop", "printer")
		if err != nil {
			return nil, err
		}
		m := controller.NewManager(elector)
		return m, m.Add(controllers...)
	}
	m, err := newManager(&rest.Config{Host: "https://127.0.0.1:6443"})
	fmt.Println(m.Readyz(), err)
	// Then run it: when Run returns controller.ErrLeaseLost, the process does best to exit and start afresh.
	// Output: <nil> <nil>
}
