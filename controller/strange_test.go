package controller_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
)

// compressing compresses answers for those who ask for that themselves, as API servers do if they are large.
type compressing struct{ next http.RoundTripper }

func (c compressing) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := r.Header.Get("Accept-Encoding") == "gzip"
	response, err := c.next.RoundTrip(r)
	if err != nil || !asked || response.StatusCode != http.StatusOK {
		return response, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = io.Copy(w, response.Body)
	_ = w.Close()
	_ = response.Body.Close()
	response.Body, response.ContentLength = io.NopCloser(&packed), int64(packed.Len())
	response.Header.Set("Content-Encoding", "gzip")
	response.Header.Del("Content-Length")
	return response, nil
}

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
		"it asks for compression": {objects: a, seen: showsTruth, lookups: 1, act: func(ctx context.Context, w *mapWorld) {
			config := w.server.Config()
			config.Wrap(func(next http.RoundTripper) http.RoundTripper { return compressing{next} })
			config.Wrap(controller.TrackWrites)
			client := must(rest.HTTPClientFor(config))
			r := patchRequest(ctx, w)
			r.Header.Set("Accept-Encoding", "gzip")
			response := must(client.Do(r))
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
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
		"the context ends before the answer": {
			objects: a,
			seen:    showsTruth,
			lookups: 1,
			act: func(ctx context.Context, w *mapWorld) {
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
			},
		},
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

// failing is a body that cannot be read.
type failing struct{ closed bool }

func (*failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func (f *failing) Close() error {
	f.closed = true
	return nil
}

// TestBodyThatFails: the body is closed whatever happens, as net/http promises.
func TestBodyThatFails(t *testing.T) {
	body := new(failing)
	r := must(http.NewRequestWithContext(trackingContext(t.Context()), http.MethodDelete,
		"http://s/api/v1/namespaces/default/configmaps/a", body))
	tracked := controller.TrackWrites(roundTripper(func(*http.Request) (*http.Response, error) {
		t.Error("it was sent")
		return nil, io.ErrUnexpectedEOF
	}))
	if _, err := tracked.RoundTrip(r); err == nil || !body.closed {
		t.Errorf("error %v, closed %v", err, body.closed)
	}
}

// TestEvictedAndMadeAnew: the successor of an evicted pod, which the cache has by the time of the answer, is not waited
// for.
func TestEvictedAndMadeAnew(t *testing.T) {
	runLate(t, map[string]lateTest[*corev1.Pod]{"": {
		objects: []tidings.Object{latePod("a")},
		seen:    func(w *lateWorld[*corev1.Pod]) bool { return !absent(w) },
		noWait:  true,
		lookups: 1,
		act: func(ctx context.Context, w *lateWorld[*corev1.Pod]) {
			config := rest.CopyConfig(w.server.Config())
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					response, err := next.RoundTrip(r)
					if r.Method == http.MethodGet { // which successor there is has to be looked up
						return response, err
					}
					w.server.Create(latePod("a"))
					time.Sleep(2 * late)
					return response, err
				})
			})
			config.Wrap(controller.TrackWrites)
			now := int64(0)
			eviction := &policyv1.Eviction{
				ObjectMeta:    metav1.ObjectMeta{Name: "a", Namespace: "default"},
				DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: &now},
			}
			must(0, kubernetes.NewForConfigOrDie(config).CoreV1().Pods("default").EvictV1(ctx, eviction))
		},
	}})
}
