package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/client"
	"github.com/tidings/tidings/internal/latewatch"
	"github.com/tidings/tidings/operator"
	"github.com/tidings/tidings/tidingstest"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func greeting(text string) *Greeting {
	return &Greeting{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hi"}, Spec: GreetingSpec{Text: text}}
}

// TestController runs the program's controller against a server in memory, in virtual time. Its caches see
// everything a second late.
func TestController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{GarbageCollector: true})
		server.AddResource(resource, kind.Kind)
		config := server.Config()
		config.Wrap(latewatch.Wrap(time.Second))
		quiet := slog.New(slog.DiscardHandler)
		op := must(operator.New(config, operator.Options{
			Lease: tidings.Key{Namespace: "default", Name: "greetings"}, Informers: tidings.Options{Logger: quiet},
		}))
		goodbyes := 0
		must(0, addTo(op, func(context.Context, string) error {
			if goodbyes++; goodbyes == 1 {
				return errors.New("not now")
			}
			return nil
		}))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- op.Run(ctx) }()
		greetings := must(client.New[*Greeting](server.Config(), resource))
		maps := must(client.New[*corev1.ConfigMap](server.Config(), corev1.SchemeGroupVersion.WithResource("configmaps")))
		key := tidings.Key{Namespace: "default", Name: "hi"}
		wait := func() { time.Sleep(10 * time.Second); synctest.Wait() }
		expect := func(text string, status metav1.ConditionStatus) {
			t.Helper()
			wait()
			m, g := must(maps.Get(ctx, key)), must(greetings.Get(ctx, key))
			if m.Data["text"] != text || !meta.IsStatusConditionPresentAndEqual(g.Status.Conditions, "Ready", status) {
				t.Errorf("the text is %q, the status %+v", m.Data["text"], g.Status)
			}
		}

		must(greetings.Create(ctx, greeting("hello")))
		expect("hello", metav1.ConditionTrue)
		must(0, maps.Delete(ctx, must(maps.Get(ctx, key)), metav1.DeleteOptions{}))
		expect("hello", metav1.ConditionTrue)
		g := must(greetings.Get(ctx, key))
		g.Spec.Text = ""
		must(greetings.Update(ctx, g))
		expect("hello", metav1.ConditionFalse)
		must(0, greetings.Delete(ctx, g, metav1.DeleteOptions{}))
		wait()
		if n := len(server.Objects(resource)); n > 0 || goodbyes != 2 {
			t.Errorf("%d greetings are left after %d goodbyes", n, goodbyes)
		}

		for path, want := range map[string]string{"/readyz": "ok", "/healthz": "ok", "/metrics": `leader_election_master_status{name="greetings"} 1`} {
			w := httptest.NewRecorder()
			op.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if body := must(io.ReadAll(w.Body)); w.Code != http.StatusOK || !strings.Contains(string(body), want) {
				t.Errorf("%s: %d %s", path, w.Code, body)
			}
		}
		stats := op.Manager.Stats()[0]
		if stats.Errors != 1 || stats.GateTimeouts != 0 { // the error is the refused goodbye
			t.Errorf("%d errors, %d waits for writes in vain", stats.Errors, stats.GateTimeouts)
		}
		stop()
		must(0, <-ended)
	})
}
