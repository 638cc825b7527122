package controller_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
)

const patchedMap = `{"data":{"a":"2"}}`

// patchRequest is a patch of the config map "a".
func patchRequest(ctx context.Context, w *mapWorld) *http.Request {
	r := must(http.NewRequestWithContext(ctx, http.MethodPatch,
		w.config.Host+"/api/v1/namespaces/default/configmaps/a", strings.NewReader(patchedMap)))
	r.Header.Set("Content-Type", "application/merge-patch+json")
	r.Header.Set("Accept", "application/json")
	return r
}

// TestStrangeClients make writes in ways that client-go does not.
func TestStrangeClients(t *testing.T) {
	a := []tidings.Object{lateConfigMap("a")}
	runLate(t, map[string]lateTest[*corev1.ConfigMap]{
		"the body is closed unread": {objects: a, seen: showsTruth, lookups: 1, act: func(ctx context.Context, w *mapWorld) {
			client := must(rest.HTTPClientFor(w.config))
			_ = must(client.Do(patchRequest(ctx, w))).Body.Close()
		}},
		"several goroutines": {objects: a, seen: showsTruth, act: func(ctx context.Context, w *mapWorld) {
			var all sync.WaitGroup
			for _, name := range strings.Split("bcdefghij", "") {
				all.Go(func() {
					if err := done(w.maps().Create(ctx, lateConfigMap(name), metav1.CreateOptions{})); err != nil {
						w.Error(err)
					}
				})
			}
			all.Wait()
		}},
		"the context ends before the answer": {objects: a, seen: showsTruth, lookups: 1, act: func(
			ctx context.Context, w *mapWorld,
		) {
			ctx, cancel := context.WithCancel(ctx)
			config := rest.CopyConfig(w.server.Config())
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.Method != http.MethodPost {
						return next.RoundTrip(r)
					}
					response, err := next.RoundTrip(r.WithContext(context.Background()))
					if err == nil {
						_ = response.Body.Close()
					}
					cancel()
					return nil, context.Cause(ctx)
				})
			})
			config.Wrap(controller.TrackWrites)
			maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
			if done(maps.Create(ctx, lateConfigMap("b"), metav1.CreateOptions{})) == nil {
				w.Error("it did not end")
			}
		}},
		"a redirect": {objects: a, seen: showsTruth, act: func(ctx context.Context, w *mapWorld) {
			config := rest.CopyConfig(w.server.Config())
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if to, ok := strings.CutPrefix(r.URL.Path, "/old"); ok {
						return &http.Response{StatusCode: http.StatusPermanentRedirect, Request: r, Body: http.NoBody,
							Header: http.Header{"Location": {to}}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}, nil
					}
					return next.RoundTrip(r)
				})
			})
			config.Wrap(controller.TrackWrites)
			client := must(rest.HTTPClientFor(config))
			r := patchRequest(ctx, w)
			r.URL.Path = "/old" + r.URL.Path
			response := must(client.Do(r))
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}},
	})
}
