package promises_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
	"github.com/tidings/tidings/tidingstest"
)

type unstructuredSource = source.ListerWatcher[*unstructured.Unstructured]

// untold is a source that does not describe itself.
type untold struct{ unstructuredSource }

// sourcesOfSecrets are sources of Secrets whose Go type does not show that.
func sourcesOfSecrets(t *testing.T, server *tidingstest.Server) map[string]unstructuredSource {
	t.Helper()
	scope := source.Scope{Resource: corev1.SchemeGroupVersion.WithResource("secrets")}
	client, err := source.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	overHTTP, err := source.NewHTTP[*unstructured.Unstructured](client, scope)
	if err != nil {
		t.Fatal(err)
	}
	dynamicClient, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	fromClient, err := source.FromClient[*unstructured.Unstructured](dynamicClient.Resource(scope.Resource), scope)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]unstructuredSource{"HTTP": overHTTP, "client": fromClient, "untold": untold{fromClient}}
}

// TestLoneInformersKeepSecrets has informers of Secrets that are not recognizable by Go type or
// factory: they are neither saved nor recorded, open or folded.
func TestLoneInformersKeepSecrets(t *testing.T) {
	for _, name := range []string{"HTTP", "client", "untold"} {
		for _, budget := range []int64{0, 1} {
			t.Run(fmt.Sprintf("%s, budget %d", name, budget), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
					server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s"}, Data: map[string][]byte{"k": []byte("canary")}})
					keepsSecrets(t, sourcesOfSecrets(t, server)[name], budget)
				})
			})
		}
	}
}

func keepsSecrets(t *testing.T, src unstructuredSource, budget int64) {
	t.Helper()
	var recorded bytes.Buffer
	recorder, err := recording.NewRecorder(&recorded, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	inf, err := tidings.NewInformer(src, tidings.InformerOptions[*unstructured.Unstructured]{
		Name: "things", Options: tidings.Options{Files: tidings.Files{Dir: dir, ClusterID: "one"}, Recorder: recorder, MemoryBudget: budget},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := inf.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, ok := inf.Get(tidings.Key{Namespace: "shop", Name: "s"}); !ok || got.Object["data"].(map[string]any)["k"] != "Y2FuYXJ5" {
		t.Errorf("the informer holds %v", got)
	}
	if err := errors.Join(inf.Stop(t.Context()), recorder.Close()); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 || inf.Status().Parts[0].File.Err == nil {
		t.Errorf("Secrets were saved in %v: %+v", entries, inf.Status().Parts[0].File)
	}
	if bytes.Contains(recorded.Bytes(), []byte("Y2FuYXJ5")) {
		t.Errorf("%d bytes of a recording have a Secret's value", recorded.Len())
	}
}
