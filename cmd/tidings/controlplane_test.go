package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/tidingstest/controlplane"
)

// TestControlPlaneScripts runs the scripts of testdata/controlplane with a real API server.
func TestControlPlaneScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts a control plane")
	}
	plane := controlplane.Start(t, controlplane.Options{UnsafeNoFsync: true})
	client, err := dynamic.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	k := kubectl{client: client, discovery: discovery.NewDiscoveryClientForConfigOrDie(plane.Config())}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/controlplane", UpdateScripts: *update, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", plane.Kubeconfig())
			env.Setenv("TZ", "UTC")
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"kube": k.script, "normal": normal, "exits": exits, "await": await},
	})
}

// kubectl acts on a real API server.
type kubectl struct {
	client    dynamic.Interface
	discovery *discovery.DiscoveryClient
}

// script is the command "kube", with which a script acts on the server:
//
//	kube create|update|status|apply|delete FILE MANAGER   the object in the file, as this field manager
//	kube offers RESOURCE                                  wait until the server has the resource
//
// "status" updates the status alone, and "apply" is server-side apply.
func (k kubectl) script(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || args[0] != "offers" && len(args) != 3 {
		ts.Fatalf("usage: kube COMMAND FILE MANAGER, or kube offers RESOURCE")
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitAtMost)
	defer cancel()
	if args[0] == "offers" {
		k.waitFor(ctx, ts, args[1])
		return
	}
	o := readObject(ts, args[1])
	r := k.waitFor(ctx, ts, o.GetKind()+"."+o.GroupVersionKind().Version+"."+o.GroupVersionKind().Group)
	var objects dynamic.ResourceInterface = k.client.Resource(r.GroupVersionResource)
	if r.Namespaced {
		objects = k.client.Resource(r.GroupVersionResource).Namespace(o.GetNamespace())
	}
	ts.Check(act(ctx, objects, args[0], o, args[2]))
}

func act(ctx context.Context, objects dynamic.ResourceInterface, verb string, o *unstructured.Unstructured, manager string) (err error) {
	switch verb {
	case "create":
		_, err = objects.Create(ctx, o, metav1.CreateOptions{FieldManager: manager})
	case "update", "status":
		current, err := objects.Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		o.SetResourceVersion(current.GetResourceVersion())
		var sub []string
		if verb == "status" {
			sub = []string{"status"}
		}
		_, err = objects.Update(ctx, o, metav1.UpdateOptions{FieldManager: manager}, sub...)
		return err
	case "apply":
		_, err = objects.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: true})
	default:
		err = objects.Delete(ctx, o.GetName(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	}
	return err
}

// waitFor returns the resource as soon as discovery lists it. There is no notification of that, so it polls.
func (k kubectl) waitFor(ctx context.Context, ts *testscript.TestScript, name string) resources.Resource {
	for {
		catalog, err := resources.Discover(k.discovery, slog.New(slog.DiscardHandler))
		ts.Check(err)
		found, err := catalog.Resolve(name)
		if err == nil {
			return found[0]
		}
		select {
		case <-ctx.Done():
			ts.Check(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
