package controller_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/controller"
	"github.com/tidings/tidings/tidingstest"
)

type mapWorld = lateWorld[*corev1.ConfigMap]

func (w *lateWorld[T]) maps() kubernetesMaps { return w.client.CoreV1().ConfigMaps("default") }

type kubernetesMaps interface {
	Create(context.Context, *corev1.ConfigMap, metav1.CreateOptions) (*corev1.ConfigMap, error)
	Update(context.Context, *corev1.ConfigMap, metav1.UpdateOptions) (*corev1.ConfigMap, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*corev1.ConfigMap, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
}

// showsTruth reports whether the cache holds what the server does.
func showsTruth(w *mapWorld) bool {
	truth := w.server.Versions(corev1.SchemeGroupVersion.WithResource("configmaps"))
	snapshot := w.cache.Snapshot()
	if snapshot.Len() != len(truth) {
		return false
	}
	for key, version := range truth {
		if cm, ok := snapshot.Get(key); !ok || cm.ResourceVersion != version {
			return false
		}
	}
	return true
}

// TestLostAnswers loses the answer to a write that was carried out, or was not.
func TestLostAnswers(t *testing.T) {
	unavailable := apierrors.NewServiceUnavailable("broken")
	noReason := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: "etcdserver: request timed out"}}
	faults := map[string]tidingstest.Fault{
		"hung up":     {HangUp: true},
		"cut":         {CutAfterBytes: 20},
		"unavailable": {Err: unavailable},
		"timed out":   {Err: noReason},
		"a proxy's":   {Answer: &tidingstest.Answer{Code: 502, ContentType: "text/html", Body: []byte("<html>")}},
	}
	writes := map[string]func(ctx context.Context, w *mapWorld) error{
		"create": func(ctx context.Context, w *mapWorld) error {
			return done(w.maps().Create(ctx, lateConfigMap("new"), metav1.CreateOptions{}))
		},
		"patch": func(ctx context.Context, w *mapWorld) error {
			return done(w.maps().Patch(ctx, "a", types.MergePatchType, mergePatch, metav1.PatchOptions{}))
		},
		"delete": func(ctx context.Context, w *mapWorld) error { return w.maps().Delete(ctx, "a", metav1.DeleteOptions{}) },
		"collection": func(ctx context.Context, w *mapWorld) error {
			return w.maps().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		},
		"generate": func(ctx context.Context, w *mapWorld) error {
			cm := lateConfigMap("")
			cm.GenerateName = "child-"
			return done(w.maps().Create(ctx, cm, metav1.CreateOptions{}))
		},
	}
	tests := map[string]lateTest[*corev1.ConfigMap]{}
	for name, fault := range faults {
		for verb, write := range writes {
			for _, applied := range []bool{true, false} {
				if fault.CutAfterBytes > 0 && !applied {
					continue
				}
				fault.Applied = applied && fault.CutAfterBytes == 0
				tests[strings.Join([]string{name, verb, map[bool]string{true: "applied", false: "not"}[applied]}, "/")] = lateTest[*corev1.ConfigMap]{
					objects: []tidings.Object{lateConfigMap("a")},
					act: func(ctx context.Context, w *mapWorld) {
						w.server.Inject(tidingstest.Write, fault)
						if err := write(ctx, w); err == nil && fault.CutAfterBytes == 0 {
							w.Error("the answer was not lost")
						}
					},
					seen:    showsTruth,
					lookups: 1,
					// Without an event the cache is current to the version of a collection with its next bookmark
					// only, so the gate may give up first.
					bounded: !applied && (verb == "collection" || verb == "generate"),
				}
			}
		}
	}
	runLate(t, tests)
}

// TestNoWait makes requests after which there is nothing to wait for.
func TestNoWait(t *testing.T) {
	all := []string{metav1.DryRunAll}
	tests := map[string]func(ctx context.Context, w *mapWorld){
		"dry runs": func(ctx context.Context, w *mapWorld) {
			cm, _ := w.cache.Get(lateKey)
			cm = cm.DeepCopy()
			cm.Data["a"] = "2"
			must(w.maps().Create(ctx, lateConfigMap("new"), metav1.CreateOptions{DryRun: all}))
			must(w.maps().Update(ctx, cm, metav1.UpdateOptions{DryRun: all}))
			must(w.maps().Patch(ctx, "a", types.MergePatchType, mergePatch, metav1.PatchOptions{DryRun: all}))
			must(0, w.maps().Delete(ctx, "a", metav1.DeleteOptions{DryRun: all}))
			must(0, w.maps().DeleteCollection(ctx, metav1.DeleteOptions{DryRun: all}, metav1.ListOptions{}))
			protobuf := rest.CopyConfig(w.config)
			protobuf.ContentType = runtime.ContentTypeProtobuf
			client := kubernetes.NewForConfigOrDie(protobuf).CoreV1().ConfigMaps("default")
			must(0, client.Delete(ctx, "a", metav1.DeleteOptions{DryRun: all}))
		},
		"refused": func(ctx context.Context, w *mapWorld) {
			for _, err := range []error{
				done(w.maps().Create(ctx, lateConfigMap("a"), metav1.CreateOptions{})),
				w.maps().Delete(ctx, "missing", metav1.DeleteOptions{}),
				w.maps().Delete(ctx, "a", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")}),
			} {
				if err == nil {
					w.Error("not refused")
				}
			}
		},
		"a webhook failed": func(ctx context.Context, w *mapWorld) {
			w.server.Inject(tidingstest.Create, tidingstest.Fault{Err: apierrors.NewInternalError(errors.New("failed calling webhook"))})
			if done(w.maps().Create(ctx, lateConfigMap("new"), metav1.CreateOptions{})) == nil {
				w.Error("not refused")
			}
		},
		"other resources": func(ctx context.Context, w *mapWorld) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
			must(w.client.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{}))
		},
		"another namespace": func(ctx context.Context, w *mapWorld) {
			cm := lateConfigMap("new")
			cm.Namespace = "elsewhere"
			must(w.client.CoreV1().ConfigMaps("elsewhere").Create(ctx, cm, metav1.CreateOptions{}))
			must(0, w.client.CoreV1().ConfigMaps("elsewhere").Delete(ctx, "new", metav1.DeleteOptions{}))
		},
		"other labels": func(ctx context.Context, w *mapWorld) {
			cm := lateConfigMap("new")
			cm.Labels = map[string]string{"role": "other"}
			must(w.maps().Create(ctx, cm, metav1.CreateOptions{}))
			must(0, w.maps().Delete(ctx, "new", metav1.DeleteOptions{}))
		},
		"the server has gone": func(ctx context.Context, w *mapWorld) {
			config := rest.CopyConfig(w.config)
			config.Transport, config.WrapTransport = nil, nil
			config.Host = "http://127.0.0.1:1" // nothing listens there
			config.Dial = func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
			}
			config.Wrap(controller.TrackWrites)
			if done(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default").Create(ctx, lateConfigMap("new"), metav1.CreateOptions{})) == nil {
				w.Error("connected")
			}
		},
	}
	late := map[string]lateTest[*corev1.ConfigMap]{}
	for name, act := range tests {
		a := lateConfigMap("a")
		a.Labels = map[string]string{"role": "own"}
		late[name] = lateTest[*corev1.ConfigMap]{
			scope: tidings.Scope{Namespaces: []string{"default"}, Labels: "role=own"}, objects: []tidings.Object{a},
			act: act, seen: func(*mapWorld) bool { return true }, noWait: true,
		}
	}
	runLate(t, late)
}

// TestScopes writes objects that enter and leave the scope of a cache.
func TestScopes(t *testing.T) {
	own := lateConfigMap("a")
	own.Labels = map[string]string{"role": "own"}
	scope := tidings.Scope{Labels: "role=own"}
	runLate(t, map[string]lateTest[*corev1.ConfigMap]{
		"created": {
			scope: scope,
			act: func(ctx context.Context, w *mapWorld) {
				must(w.maps().Create(ctx, own.DeepCopy(), metav1.CreateOptions{}))
			},
			seen: showsTruth,
		},
		"leaves": {
			scope: scope, objects: []tidings.Object{own},
			act: func(ctx context.Context, w *mapWorld) {
				must(w.maps().Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{}))
			},
			seen: absent[*corev1.ConfigMap],
		},
		"enters": {
			scope: scope, objects: []tidings.Object{lateConfigMap("a")},
			act: func(ctx context.Context, w *mapWorld) {
				must(w.maps().Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"role":"own"}}}`), metav1.PatchOptions{}))
			},
			seen: showsTruth,
		},
		"of one name": {
			scope: tidings.Scope{Fields: "metadata.name=new"},
			act: func(ctx context.Context, w *mapWorld) {
				must(w.maps().Create(ctx, lateConfigMap("new"), metav1.CreateOptions{}))
			},
			seen: showsTruth,
		},
		"of another name": {
			scope: tidings.Scope{Fields: "metadata.name=other"},
			act: func(ctx context.Context, w *mapWorld) {
				must(w.maps().Create(ctx, lateConfigMap("new"), metav1.CreateOptions{}))
			},
			seen:   absent[*corev1.ConfigMap],
			noWait: true,
		},
		"deleted before it was seen": {
			objects: []tidings.Object{lateConfigMap("a")},
			act: func(ctx context.Context, w *mapWorld) {
				w.server.Delete(lateConfigMap("a"))
				w.server.Create(lateConfigMap("a"))
				must(0, w.maps().Delete(ctx, "a", metav1.DeleteOptions{}))
				w.server.Create(lateConfigMap("b")) // whose event shows that the cache is current
			},
			seen: absent[*corev1.ConfigMap],
		},
	})
}

// TestPods writes pods in ways that have answers of their own.
func TestPods(t *testing.T) {
	type podWorld = lateWorld[*corev1.Pod]
	unbound := latePod("a")
	unbound.Spec.NodeName = ""
	bind := func(ctx context.Context, w *podWorld) {
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
		must(0, w.client.CoreV1().Pods("default").Bind(ctx, binding, metav1.CreateOptions{}))
	}
	isBound := func(w *podWorld) bool {
		pod, ok := w.cache.Get(lateKey)
		return ok && pod.Spec.NodeName == "n"
	}
	evict := func(options metav1.DeleteOptions) func(ctx context.Context, w *podWorld) {
		return func(ctx context.Context, w *podWorld) {
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, DeleteOptions: &options}
			must(0, w.client.CoreV1().Pods("default").EvictV1(ctx, eviction))
		}
	}
	remove := func(options metav1.DeleteOptions) func(ctx context.Context, w *podWorld) {
		return func(ctx context.Context, w *podWorld) {
			must(0, w.client.CoreV1().Pods("default").Delete(ctx, "a", options))
		}
	}
	now := int64(0)
	runLate(t, map[string]lateTest[*corev1.Pod]{
		"binding":         {objects: []tidings.Object{unbound}, act: bind, seen: isBound, lookups: 1},
		"binding, fields": {scope: tidings.Scope{Fields: "spec.nodeName=n"}, objects: []tidings.Object{unbound}, act: bind, seen: isBound, lookups: 1},
		"eviction":        {objects: []tidings.Object{latePod("a")}, act: evict(metav1.DeleteOptions{}), seen: isDying},
		"eviction, dry run": {
			objects: []tidings.Object{latePod("a")}, act: evict(metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}),
			seen: func(*podWorld) bool { return true }, noWait: true,
		},
		"graceful deletion": {objects: []tidings.Object{latePod("a")}, act: remove(metav1.DeleteOptions{}), seen: isDying},
		"forced deletion":   {objects: []tidings.Object{latePod("a")}, act: remove(metav1.DeleteOptions{GracePeriodSeconds: &now}), seen: absent[*corev1.Pod]},
		"graceful deletion, then forced": {
			objects: []tidings.Object{latePod("a")},
			act: func(ctx context.Context, w *podWorld) {
				remove(metav1.DeleteOptions{})(ctx, w)
				remove(metav1.DeleteOptions{GracePeriodSeconds: &now})(ctx, w)
			},
			seen: absent[*corev1.Pod],
		},
		"created and forced": {
			act: func(ctx context.Context, w *podWorld) {
				must(w.client.CoreV1().Pods("default").Create(ctx, latePod("a"), metav1.CreateOptions{}))
				remove(metav1.DeleteOptions{GracePeriodSeconds: &now})(ctx, w)
			},
			seen: func(w *podWorld) bool {
				return absent(w) && w.cache.ResourceVersionIn("default") == w.server.ResourceVersion()
			},
		},
	})
}

// TestWaitForWrites writes outside of a reconcile, and within one.
func TestWaitForWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLateWorld(t, tidings.Scope{}, nil, func(ctx context.Context, w *mapWorld) {
			must(w.maps().Create(ctx, lateConfigMap("inside"), metav1.CreateOptions{}))
			must(0, controller.WaitForWrites(ctx))
			if !showsTruth(w) {
				w.Error("the write has not been waited for")
			}
		})
		w.twice()
		ctx := w.controller.WithWrites(t.Context())
		must(0, controller.WaitForWrites(ctx))
		must(w.maps().Create(ctx, lateConfigMap("outside"), metav1.CreateOptions{}))
		start := time.Now()
		must(0, controller.WaitForWrites(ctx))
		if waited := time.Since(start); !showsTruth(w) || waited != late {
			t.Errorf("waited for %v", waited)
		}
		must(0, w.maps().Delete(ctx, "outside", metav1.DeleteOptions{}))
		short, cancel := context.WithTimeout(ctx, late/2)
		defer cancel()
		err := controller.WaitForWrites(short)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "configmaps: removal of default/outside") {
			t.Error(err)
		}
		if err := controller.WaitForWrites(t.Context()); err == nil {
			t.Error("no error for a context without writes")
		}
	})
}

// TestTrackingChangesNothing compares answers with and without tracking, byte for byte.
func TestTrackingChangesNothing(t *testing.T) {
	large := bytes.Repeat([]byte(`{"kind":"ConfigMap","data":{"a":"b"},"metadata":{"uid":"u","resourceVersion":"5"}}`), 10_000)
	for name, response := range map[string]http.Response{
		"object":       {StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(large[:82]))},
		"large":        {StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(large))},
		"large binary": {StatusCode: 201, Header: http.Header{"Content-Type": {"application/vnd.kubernetes.protobuf"}}, Body: io.NopCloser(bytes.NewReader(large))},
		"empty":        {StatusCode: 200, Header: http.Header{}, Body: http.NoBody},
		"error":        {StatusCode: 409, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(large))},
		"broken":       {StatusCode: 500, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(large))},
	} {
		t.Run(name, func(t *testing.T) {
			want := must(io.ReadAll(response.Body))
			response.Body = io.NopCloser(bytes.NewReader(want))
			c := controller.New("c", func(context.Context, tidings.Key) (controller.Result, error) { return controller.Result{}, nil }, controller.Options{})
			must(0, controller.Use(c, &nothingCached{}))
			tracked := controller.TrackWrites(roundTripper(func(r *http.Request) (*http.Response, error) { return &response, nil }))
			request := must(http.NewRequestWithContext(c.WithWrites(t.Context()), http.MethodPut, "http://s/api/v1/namespaces/default/configmaps/a", nil))
			answer := must(tracked.RoundTrip(request))
			got := must(io.ReadAll(answer.Body))
			if !bytes.Equal(got, want) {
				t.Errorf("got %d bytes, want %d", len(got), len(want))
			}
			must(0, answer.Body.Close())
		})
	}
}

// nothingCached is an empty cache of ConfigMaps.
type nothingCached struct {
	controller.Cache[*corev1.ConfigMap]
}

func (*nothingCached) Name() string                                      { return "configmaps" }
func (*nothingCached) Get(tidings.Key) (*corev1.ConfigMap, bool)         { return nil, false }
func (*nothingCached) ResourceVersionIn(string) string                   { return "1" }
func (*nothingCached) Covers(*corev1.ConfigMap) bool                     { return true }
func (*nothingCached) CoversMetadata(metav1.Object) (covers, known bool) { return true, true }
