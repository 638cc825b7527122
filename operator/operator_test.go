package operator

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/client"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/tidingstest"
)

// kubeconfigFor writes a kubeconfig for the server.
func kubeconfigFor(t *testing.T, server *tidingstest.Server) string {
	t.Helper()
	text := "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n" +
		"clusters: [{name: a, cluster: {server: '" + server.Config().Host + "'}}]\n"
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestProgram runs a program with an operator, and ends it.
func TestProgram(t *testing.T) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{Loopback: true})
	server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	metricsText := ""
	var op *Operator
	setup := func(made *Operator) error {
		op = made
		maps, err := tidings.Informer[*corev1.ConfigMap](op.Factory, tidings.Scope{})
		if err != nil {
			return err
		}
		writes, err := client.New[*corev1.ConfigMap](op.Config, corev1.SchemeGroupVersion.WithResource("configmaps"))
		if err != nil {
			return err
		}
		c := controller.New("maps", func(ctx context.Context, key tidings.Key) (controller.Result, error) {
			defer stop()
			cm, _ := maps.Get(key)
			cm = cm.DeepCopy()
			cm.Labels = map[string]string{"seen": "yes"}
			if _, err := writes.Update(ctx, cm); err != nil {
				t.Error(err)
			}
			response, err := http.Get("http://" + op.listening.Load().(net.Addr).String() + "/metrics")
			if err != nil {
				t.Error(err)
				return controller.Result{}, nil
			}
			defer response.Body.Close()
			data, _ := io.ReadAll(response.Body)
			metricsText = string(data)
			return controller.Result{}, controller.WaitForWrites(ctx)
		}, controller.Options{})
		return errors.Join(controller.WatchKeys(c, maps), op.Manager.Add(c))
	}
	args := []string{"-kubeconfig", kubeconfigFor(t, server), "-address", "127.0.0.1:0", "-lease-namespace", "default"}
	if err := runProgram(ctx, "test", args, setup); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`leader_election_master_status{name="test"} 1`, "go_goroutines", `controller="maps"`} {
		if !strings.Contains(metricsText, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if st := op.Manager.Stats()[0]; st.Reconciles != 1 || st.Errors != 0 {
		t.Errorf("%d reconciles, %d errors", st.Reconciles, st.Errors)
	}
}

// TestProgramFails for each thing that can be wrong.
func TestProgramFails(t *testing.T) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{Loopback: true})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	config := kubeconfigFor(t, server)
	for want, args := range map[string][]string{
		"no such file":           {"-kubeconfig", "/nothing/there"},
		"flag provided but not":  {"-nothing"},
		"address already in use": {"-kubeconfig", config, "-address", taken.Addr().String()},
	} {
		err := runProgram(t.Context(), "test", args, func(*Operator) error { return nil })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	broken := errors.New("broken")
	if err := runProgram(t.Context(), "test", []string{"-kubeconfig", config}, func(*Operator) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// TestShardedProgram runs a program whose replicas share their work, alone.
func TestShardedProgram(t *testing.T) {
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{Loopback: true})
	server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	setup := func(op *Operator) error {
		maps, err := tidings.Informer[*corev1.ConfigMap](op.Factory, tidings.Scope{})
		if err != nil {
			return err
		}
		c := controller.New("maps", func(context.Context, tidings.Key) (controller.Result, error) {
			defer stop()
			families, err := op.Registry.Gather()
			if err != nil {
				t.Error(err)
			}
			for _, f := range families {
				if f.GetName() == "tidings_shards_held" && f.GetMetric()[0].GetGauge().GetValue() == 5 {
					return controller.Result{}, nil
				}
			}
			t.Error("the metrics do not say that the replica has 5 shards")
			return controller.Result{}, nil
		}, controller.Options{})
		return errors.Join(controller.WatchKeys(c, maps), op.Manager.Add(c))
	}
	args := []string{"-kubeconfig", kubeconfigFor(t, server), "-address", "", "-lease-namespace", "default", "-shards", "5"}
	if err := runProgram(ctx, "test", args, setup); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != context.Canceled {
		t.Error("nothing was reconciled")
	}
	args[5] = ""
	err := runProgram(t.Context(), "test", args, setup)
	if err == nil || !strings.Contains(err.Error(), "name of a Lease") {
		t.Errorf("got %v", err)
	}
}
