package promises_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/tidingstest"
	"github.com/tidings/tidings/tidingstest/recorder"
)

// TestNamespaceThatComesBackIsNotReadFromItsFile: the file of a namespace that is removed and added again may be
// older than what handlers have seen of it.
func TestNamespaceThatComesBackIsNotReadFromItsFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		object := func(name string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: name}}
		}
		server.Create(object("changed"))
		server.Create(object("deleted"))
		const others = 120 // fewer would be listed anyway
		for i := range others {
			server.Create(object(fmt.Sprint(i)))
		}
		factory, err := tidings.NewFactory(server.Config(), tidings.Options{Files: tidings.Files{Dir: t.TempDir(), Every: 24 * time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		inf, err := tidings.Informer[*corev1.ConfigMap](factory, tidings.Scope{Namespaces: []string{"a", "b"}})
		if err != nil {
			t.Fatal(err)
		}
		var heard recorder.Recorder[*corev1.ConfigMap]
		if _, err := inf.AddHandler(tidings.DeltaFunc[*corev1.ConfigMap](heard.Delta), tidings.HandlerOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := factory.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if saves := inf.Status().Parts[1].File.Saves; saves == 0 {
			t.Fatal("nothing was saved")
		}
		server.Update(object("changed"))
		server.Delete(object("deleted"))
		time.Sleep(time.Minute)
		for _, namespaces := range [][]string{{"a"}, {"a", "b"}} {
			if err := inf.SetNamespaces(t.Context(), namespaces...); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		if err := heard.Err(); err != nil {
			t.Error(err)
		}
		if len(heard.State()) != 1+others || inf.Snapshot().Len() != 1+others {
			t.Errorf("the handler was told of %d objects, and the store has %d", len(heard.State()), inf.Snapshot().Len())
		}
		if err := factory.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
