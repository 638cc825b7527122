package tidingstest

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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/object"
)

var (
	pods    = corev1.SchemeGroupVersion.WithResource("pods")
	widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}}}
}

func widget(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec":     map[string]any{"size": int64(3)},
	}}
}

// eachServer runs a test over in-memory connections in a bubble, with both protocols, and over loopback outside
// a bubble.
func eachServer(t *testing.T, test func(t *testing.T, options ServerOptions)) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("memory,http2=%v", http2), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, ServerOptions{HTTP2: http2}) })
		})
		t.Run(fmt.Sprintf("loopback,http2=%v", http2), func(t *testing.T) {
			CheckLeaks(t)
			test(t, ServerOptions{HTTP2: http2, Loopback: true})
		})
	}
}

func protobufClient(t *testing.T, s *Server) kubernetes.Interface {
	config := s.Config()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return kubernetes.NewForConfigOrDie(config)
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			t.Fatal("the watch ended")
		}
		return e
	case <-time.After(20 * time.Second):
		t.Fatal("no event")
		panic("unreachable")
	}
}

func TestServerServesClientGo(t *testing.T) {
	eachServer(t, func(t *testing.T, options ServerOptions) {
		s := NewServer(t, options)
		s.AddResource(widgets, "Widget")
		s.Create(pod("a", "x"))
		rv := s.Create(pod("b", "y"))
		s.Create(widget("a", "w"))

		list := must(protobufClient(t, s).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}))(t)
		if len(list.Items) != 2 || list.Items[1].Name != "y" || list.Items[1].ResourceVersion != rv {
			t.Errorf("typed list: %+v", list.Items)
		}
		list = must(kubernetes.NewForConfigOrDie(s.Config()).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: "app=y"}))(t)
		if len(list.Items) != 1 || list.Items[0].Name != "y" {
			t.Errorf("JSON list with a selector: %+v", list.Items)
		}
		custom := must(dynamic.NewForConfigOrDie(s.Config()).Resource(widgets).Namespace("a").List(t.Context(), metav1.ListOptions{}))(t)
		if len(custom.Items) != 1 || custom.Items[0].GetKind() != "Widget" || custom.GetResourceVersion() != s.ResourceVersion() {
			t.Errorf("dynamic list: %+v", custom)
		}
		partial := must(metadata.NewForConfigOrDie(s.Config()).Resource(pods).List(t.Context(), metav1.ListOptions{}))(t)
		if len(partial.Items) != 2 || partial.Items[0].Name != "x" {
			t.Errorf("metadata list: %+v", partial)
		}
		if _, err := dynamic.NewForConfigOrDie(s.Config()).Resource(widgets.GroupVersion().WithResource("gadgets")).List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("unknown resource: %v", err)
		}
	})
}

func TestServerWatches(t *testing.T) {
	eachServer(t, func(t *testing.T, options ServerOptions) {
		s := NewServer(t, options)
		start := s.Create(pod("a", "x"))
		yes := true
		client := protobufClient(t, s)
		w := must(client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{
			SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
		}))(t)
		defer w.Stop()
		if e := next(t, w); e.Type != watch.Added || e.Object.(*corev1.Pod).Name != "x" {
			t.Errorf("initial event: %v", e)
		}
		if e := next(t, w); e.Type != watch.Bookmark || e.Object.(*corev1.Pod).Annotations[metav1.InitialEventsAnnotationKey] != "true" {
			t.Errorf("end of the initial events: %v", e)
		}

		selected := must(client.CoreV1().Pods("a").Watch(t.Context(), metav1.ListOptions{LabelSelector: "app=x", ResourceVersion: start}))(t)
		defer selected.Stop()
		changed := pod("a", "x")
		changed.Labels["app"] = "other"
		rv := s.Update(changed)
		if e := next(t, w); e.Type != watch.Modified || e.Object.(*corev1.Pod).ResourceVersion != rv {
			t.Errorf("update: %v", e)
		}
		if e := next(t, selected); e.Type != watch.Deleted || e.Object.(*corev1.Pod).ResourceVersion != rv {
			t.Errorf("an object that leaves the selection: %v", e)
		}
		rv = s.Delete(changed)
		if e := next(t, w); e.Type != watch.Deleted || e.Object.(*corev1.Pod).ResourceVersion != rv {
			t.Errorf("delete: %v", e)
		}
		s.SendBookmarks(pods)
		if e := next(t, w); e.Type != watch.Bookmark || e.Object.(*corev1.Pod).ResourceVersion != rv {
			t.Errorf("bookmark: %v", e)
		}
	})
}

func TestServerPages(t *testing.T) {
	synctest.Test(t, testServerPages) // client-go waits between its attempts
}

func testServerPages(t *testing.T) {
	s := NewServer(t, ServerOptions{})
	for i := range 5 {
		s.Create(pod("a", fmt.Sprint("p", i)))
	}
	client := protobufClient(t, s).CoreV1().Pods("")
	first := must(client.List(t.Context(), metav1.ListOptions{Limit: 2}))(t)
	if len(first.Items) != 2 || first.Continue == "" || *first.RemainingItemCount != 3 {
		t.Fatalf("first page: %+v", first.ListMeta)
	}
	s.Delete(pod("a", "p2")) // later pages still show the state as of the first
	second := must(client.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: first.Continue}))(t)
	if len(second.Items) != 2 || second.Items[0].Name != "p2" || second.ResourceVersion != first.ResourceVersion {
		t.Errorf("second page: %+v", second)
	}
	s.Compact()
	if _, err := client.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: second.Continue}); !apierrors.IsResourceExpired(err) {
		t.Errorf("expired token: %v", err)
	}
	if _, err := client.List(t.Context(), metav1.ListOptions{ResourceVersion: "999999"}); !apierrors.IsTimeout(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		t.Errorf("too large version: %v", err)
	}
	w := must(client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: first.ResourceVersion}))(t)
	defer w.Stop()
	if e := next(t, w); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("watch from a compacted version: %v", e)
	}
}

// get reads a whole response and reports how it ended.
func get(t *testing.T, s *Server, path string) (*http.Response, string, error) {
	t.Helper()
	return getAs(t, s, path, "")
}

func getAs(t *testing.T, s *Server, path, accept string) (*http.Response, string, error) {
	t.Helper()
	client := must(rest.HTTPClientFor(s.Config()))(t)
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.Config().Host+path, nil))(t)
	request.Header.Set("Accept", accept)
	response, err := client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, string(body), err
}

func TestServerFaults(t *testing.T) {
	const list, stream = "/api/v1/pods", "/api/v1/pods?watch=1&timeoutSeconds=5&resourceVersion=1"
	forbidden := apierrors.NewForbidden(pods.GroupResource(), "", fmt.Errorf("no"))
	html := &Answer{Code: 200, ContentType: "text/html", Body: []byte("<html>login</html>")}
	tests := []struct {
		name, path string
		fault      Fault
		want       string // in the body, or in the error
	}{
		{"status", list, Fault{Err: forbidden}, `"code":403`},
		{"retry after", list, Fault{Err: apierrors.NewTooManyRequests("slow down", 7)}, `"retryAfterSeconds":7`},
		{"answer", list, Fault{Answer: html}, "<html>login</html>"},
		{"hang up", list, Fault{HangUp: true}, "EOF"},
		{"cut after bytes", list, Fault{CutAfterBytes: 10}, "EOF"},
		{"extra item", list, Fault{Items: []runtime.Object{pod("", "")}}, `"items":[{"metadata":{"name":"x"`},
		{"gzip", list, Fault{Gzip: true}, `"items":[{"metadata":{"name":"x"`},
		{"error event", stream, Fault{Events: []RawEvent{ErrorEvent(forbidden)}, End: Close}, `{"type":"ERROR","object":{"kind":"Status"`},
		{"raw event", stream, Fault{Events: []RawEvent{{Raw: []byte("garbage")}}, End: Close}, "garbage"},
		{"close", stream, Fault{After: 1, End: Close}, `{"type":"ADDED"`},
		{"cut", stream, Fault{After: 1, End: Cut}, "EOF"},
		{"gzip watch", stream, Fault{Gzip: true}, `{"type":"ADDED"`},
		{"other resource", list, Fault{Resource: "nodes", HangUp: true}, `"name":"x"`},
		{"none", stream, Fault{}, `{"type":"ADDED"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewServer(t, ServerOptions{})
				s.Create(pod("a", "x"))
				s.Inject(Any, test.fault)
				_, body, err := get(t, s, test.path)
				if !strings.Contains(body+fmt.Sprint(err), test.want) {
					t.Errorf("got %q, %v; want %q", body, err, test.want)
				}
			})
		})
	}
}

func TestServerStallAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(t, ServerOptions{})
		s.Inject(Watch, Fault{End: Stall})
		result := make(chan error)
		go func() {
			_, _, err := get(t, s, "/api/v1/pods?watch=1&timeoutSeconds=5&resourceVersion=1")
			result <- err
		}()
		if err := s.WaitWatches(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case err := <-result:
			t.Fatalf("a stalled watch ended: %v", err)
		default:
		}
		s.Stop()
		if err := <-result; err == nil {
			t.Error("a stopped server ended a watch cleanly")
		}
		if _, _, err := get(t, s, "/api/v1/pods"); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("a stopped server: %v", err)
		}
		s.Start()
		if _, _, err := get(t, s, "/api/v1/pods"); err != nil {
			t.Error(err)
		}
		if s.Count(List) != 1 || s.Count(Watch) != 1 || s.Count(Any) != 2 || len(s.Requests(Watch)) != 1 {
			t.Errorf("requests: %v", s.Requests(Any))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.WaitRequests(ctx, Get, 1); err == nil {
			t.Error("waited for nothing and got it")
		}
	})
}

func TestServerRemovesResource(t *testing.T) {
	s := NewServer(t, ServerOptions{})
	s.AddResource(widgets, "Widget")
	s.Create(widget("a", "w"))
	w := must(dynamic.NewForConfigOrDie(s.Config()).Resource(widgets).Watch(t.Context(), metav1.ListOptions{}))(t)
	next(t, w)
	s.RemoveResource(widgets)
	if e, ok := <-w.ResultChan(); ok {
		t.Errorf("watch of a removed resource: %v", e)
	}
	if len(s.Versions(widgets)) != 0 {
		t.Error("objects survive their resource")
	}
	s.AddResource(widgets, "Widget")
	rv := s.Create(widget("a", "w"))
	if got := s.Versions(widgets)[object.Key{Namespace: "a", Name: "w"}]; got != rv {
		t.Errorf("version %q, want %q", got, rv)
	}
}
