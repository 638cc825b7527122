package tidings_test

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
	"github.com/tidings/tidings/tidingstest"
)

// TestLoneInformersKeepSecrets has an informer of Secrets that neither Go type nor factory give away.
func TestLoneInformersKeepSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s"}, Data: map[string][]byte{"k": []byte("canary")}})
		client, err := source.NewClient(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		src, err := source.NewHTTP[*unstructured.Unstructured](client, source.Scope{Resource: corev1.SchemeGroupVersion.WithResource("secrets")})
		if err != nil {
			t.Fatal(err)
		}
		var recorded bytes.Buffer
		recorder, err := recording.NewRecorder(&recorded, recording.Options{})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		inf, err := tidings.NewInformer(src, tidings.InformerOptions[*unstructured.Unstructured]{Options: tidings.Options{Dir: dir, ClusterID: "one", Recorder: recorder}})
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
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("Secrets were saved in %v", entries)
		}
		if rec, err := recording.Read(bytes.NewReader(recorded.Bytes()), int64(recorded.Len())); err != nil || len(rec.Collections()) != 1 || rec.Collections()[0].Resource.Resource != "secrets" {
			t.Errorf("what was recorded is not the collection of Secrets: %v, %v", rec, err)
		}
		if bytes.Contains(recorded.Bytes(), []byte("Y2FuYXJ5")) {
			t.Errorf("%d bytes of a recording have a Secret's value", recorded.Len())
		}
	})
}
