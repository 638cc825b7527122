package controller_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
)

// A collection of what is being deleted already is deleted once more, as by a reconcile that does so until all are
// gone. There is nothing to wait for: the cache holds each of the objects as being deleted.
func TestCollectionIsDeletedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLateWorld(t, tidings.Scope{}, []tidings.Object{dying(lateConfigMap("a"), "example.com/x")}, func(ctx context.Context, w *mapWorld) {
			w.server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}) // advances versions
			held, ok := w.cache.Get(lateKey)
			if !ok || held.DeletionTimestamp == nil {
				w.Error("the cache does not hold it as being deleted")
			}
			must(0, w.maps().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		})
		waited := w.twice()
		st := w.controller.Stats()
		if waited > time.Second {
			t.Errorf("waited for %v although the cache held all objects as being deleted; %d look-ups, %d timeouts", waited, st.GateLookups, st.GateTimeouts)
		}
	})
}

// Preconditions of a deletion of a collection, which hold for one object only.
func TestCollectionDeletedInPartWithPreconditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held int
		w := newLateWorld(t, tidings.Scope{}, []tidings.Object{lateConfigMap("a"), lateConfigMap("b")}, func(ctx context.Context, w *mapWorld) {
			a := must(w.client.CoreV1().ConfigMaps("default").Get(ctx, "a", metav1.GetOptions{}))
			err := w.maps().DeleteCollection(ctx, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.UID}}, metav1.ListOptions{})
			if err == nil {
				w.Error("not refused")
			}
			if n := len(w.server.Objects(corev1.SchemeGroupVersion.WithResource("configmaps"))); n != 1 {
				w.Errorf("the server has %d", n)
			}
		})
		w.look = func() { held = w.cache.Snapshot().Len() }
		waited := w.twice()
		if held != 1 {
			t.Errorf("reconciled with %d objects of a collection of which one is left; waited for %v", held, waited)
		}
		time.Sleep(3 * time.Second)
	})
}

// Part of a collection was deleted before the deletion was refused.
func TestCollectionDeletedInPart(t *testing.T) {
	for name, code := range map[string]int{"403": 403, "409": 409, "422": 422, "500 InternalError": 500} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var held int
				w := newLateWorld(t, tidings.Scope{}, []tidings.Object{lateConfigMap("a"), lateConfigMap("b")}, func(ctx context.Context, w *mapWorld) {
					config := rest.CopyConfig(w.server.Config())
					config.Wrap(func(next http.RoundTripper) http.RoundTripper {
						return roundTripper(func(r *http.Request) (*http.Response, error) {
							if r.Method != http.MethodDelete {
								return next.RoundTrip(r)
							}
							w.server.Delete(lateConfigMap("a")) // and "b" is protected by an admission webhook
							body := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"admission webhook \"w\" denied the request","reason":"REASON","code":` + name[:3] + `}`
							reason := map[int]string{403: "Forbidden", 409: "Conflict", 422: "Invalid", 500: "InternalError"}[code]
							body = strings.Replace(body, "REASON", reason, 1)
							return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
								Body: io.NopCloser(strings.NewReader(body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}, nil
						})
					})
					config.Wrap(controller.TrackWrites)
					maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
					if maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}) == nil {
						w.Error("not refused")
					}
				})
				w.look = func() { held = w.cache.Snapshot().Len() }
				waited := w.twice()
				if held != 1 {
					t.Errorf("reconciled with %d objects of a collection that the reconcile has deleted all but one of; waited for %v", held, waited)
				}
				time.Sleep(3 * time.Second)
			})
		})
	}
}

// The answer to the deletion of a collection is larger than what is held of it, and the resource is quiet after
// that, while others are not.
func TestLargeCollection(t *testing.T) {
	for _, n := range []int{50, 200} {
		synctest.Test(t, func(t *testing.T) {
			var objects []tidings.Object
			for i := range n {
				cm := lateConfigMap(fmt.Sprint("c-", i))
				cm.Data["big"] = strings.Repeat("x", 4000)
				objects = append(objects, cm)
			}
			w := newLateWorld(t, tidings.Scope{}, objects, func(ctx context.Context, w *mapWorld) {
				must(0, w.maps().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
				w.server.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}})
			})
			waited := w.twice()
			st := w.controller.Stats()
			t.Logf("%d objects: waited for %v, %d look-ups, %d timeouts; the cache has %d", n, waited, st.GateLookups, st.GateTimeouts, w.cache.Snapshot().Len())
			if waited > 3*time.Second {
				t.Errorf("%d objects: the cache had seen the deletions after %v, and the key waited for %v; %d timeouts", n, late, waited, st.GateTimeouts)
			}
		})
	}
}
