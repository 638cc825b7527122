package serve

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings/tidingstest"
)

// TestWatchesPage says who watches what, to those who may know.
func TestWatchesPage(t *testing.T) {
	f := newFixture(t, 1, tidingstest.ServerOptions{}, Options{})
	f.Create(configMap("x", "a"))
	f.synced(t)
	w, err := f.maps(0).Watch(t.Context(),
		metav1.ListOptions{ResourceVersion: f.ResourceVersion(), LabelSelector: "half=a"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	version := f.Update(configMap("x", "a"))
	if e := <-w.ResultChan(); e.Type != "MODIFIED" {
		t.Fatal(e)
	}
	r := f.replicas[0]
	get := func(user string) (int, string) { return answerTo(t, r.config(as(f.config, user)), watchesPath, nil) }
	eventually(t, func() bool {
		_, text := get("user")
		return strings.Contains(text, version+"  0") && strings.Contains(text, `"user"`) &&
			strings.Contains(text, `"half=a -"`)
	})
	forged, err := kubernetes.NewForConfigOrDie(r.config(as(f.config, "user"))).CoreV1().ConfigMaps("a\nb").Watch(
		t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer forged.Stop()
	eventually(t, func() bool { _, text := get("user"); return strings.Contains(text, `"a\nb"`) })
	if code, text := get("nobody"); code != http.StatusForbidden || strings.Contains(text, "half=a") {
		t.Errorf("%d %s", code, text)
	}
	w.Stop()
	eventually(t, func() bool { _, text := get("user"); return !strings.Contains(text, "half=a") })
}
