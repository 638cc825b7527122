package main

import (
	"context"
	_ "embed"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/client"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/operator"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

//go:embed crd.yaml
var crd []byte

// patience is how long the test waits for what should happen at once.
const patience = time.Minute

// TestOnCluster runs the controller on a real API server. With -short it is skipped.
func TestOnCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	config := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true}).Config()
	installCRD(t, config)
	op := must(operator.New(config, operator.Options{
		Lease: tidings.Key{Namespace: "default", Name: "greetings"}, Address: "127.0.0.1:0",
		Informers: tidings.Options{Logger: slog.New(slog.DiscardHandler)},
	}))
	var goodbyes atomic.Int32
	must(0, addTo(op, func(context.Context, string) error { goodbyes.Add(1); return nil }))
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	ended := make(chan error, 1)
	go func() { ended <- op.Run(ctx) }()

	factory := must(tidings.NewFactory(config, tidings.Options{}))
	greetings := must(tidings.Informer[*Greeting](factory, tidings.Scope{Resource: resource}))
	maps := must(tidings.Informer[*corev1.ConfigMap](factory, tidings.Scope{Namespaces: []string{"default"}}))
	changed := make(chan struct{}, 1)
	notify := func(tidings.Key, object.DeltaType, bool) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	must(greetings.HandleKeys("test", notify))
	must(maps.HandleKeys("test", notify))
	must(0, factory.Start(ctx))
	key := tidings.Key{Namespace: "default", Name: "hi"}
	await := func(what string, cond func(*Greeting, *corev1.ConfigMap) bool) {
		t.Helper()
		for deadline := time.After(patience); ; {
			g, _ := greetings.Get(key)
			m, _ := maps.Get(key)
			if cond(g, m) {
				return
			}
			select {
			case <-changed:
			case <-deadline:
				t.Fatalf("waited in vain for: %s; there are %+v and %+v", what, g, m)
			}
		}
	}

	write := must(client.New[*Greeting](config, resource))
	g := must(write.Create(ctx, greeting("hello")))
	await("a ConfigMap and a status", func(g *Greeting, m *corev1.ConfigMap) bool {
		return g != nil && m != nil && m.Data["text"] == "hello" && meta.IsStatusConditionTrue(g.Status.Conditions, "Ready")
	})
	must(0, write.Delete(ctx, g, metav1.DeleteOptions{}))
	await("the end of the greeting", func(g *Greeting, _ *corev1.ConfigMap) bool { return g == nil })
	if n := goodbyes.Load(); n != 1 {
		t.Errorf("%d goodbyes", n)
	}
	stop()
	must(0, <-ended)
	must(0, factory.Shutdown(context.Background()))
}

// installCRD installs the definition. Informers wait by themselves until it is served.
func installCRD(t *testing.T, config *rest.Config) {
	definition := &unstructured.Unstructured{}
	must(0, yaml.Unmarshal(crd, &definition.Object))
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	crds := must(client.New[*unstructured.Unstructured](config, definitions))
	must(crds.Create(t.Context(), definition))
	factory := must(tidings.NewFactory(config, tidings.Options{Logger: slog.New(slog.DiscardHandler)}))
	must(tidings.Informer[*metav1.PartialObjectMetadata](factory, tidings.Scope{Resource: resource}))
	must(0, factory.Start(t.Context()))
	must(0, factory.WaitForSync(t.Context()))
	must(0, factory.Shutdown(context.Background()))
}
