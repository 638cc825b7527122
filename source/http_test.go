package source_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// testForm lists and watches one kind of T over both versions of HTTP, with a source of T and with
// one whose type is only known at run time.
func testForm[T object.Object](t *testing.T, scope source.Scope, accept string, make func(namespace, name string) object.Object, check func(t *testing.T, o T)) {
	testSource(t, accept, make, check, func(t *testing.T, s *tidingstest.Server) *source.HTTP[T] { return newHTTP[T](t, s, scope) })
	testSource(t, accept, make, func(t *testing.T, o object.Object) { check(t, o.(T)) },
		func(t *testing.T, s *tidingstest.Server) *source.HTTP[object.Object] {
			var example T
			return newHTTPLike(t, s, scope, example)
		})
}

func testSource[T object.Object](t *testing.T, accept string, make func(namespace, name string) object.Object, check func(t *testing.T, o T),
	open func(*testing.T, *tidingstest.Server) *source.HTTP[T],
) {
	for _, http2 := range []bool{false, true} {
		bubble(t, tidingstest.ServerOptions{HTTP2: http2}, func(t *testing.T, s *tidingstest.Server) {
			s.Create(make("a", "x"))
			rv := s.Create(make("b", "y"))
			from := open(t, s)

			objects, result := mustList(t, from, source.ListOptions[T]{})
			if got := names(objects); !slices.Equal(got, []string{"x", "y"}) || result.ResourceVersion != s.ResourceVersion() || result.Continue != "" {
				t.Fatalf("list: %v, %+v", got, result)
			}
			check(t, objects[0])
			if got := objects[1].GetResourceVersion(); got != rv {
				t.Errorf("resource version %q, want %q", got, rv)
			}

			stream := mustWatch(t, from, source.WatchOptions[T]{SendInitialEvents: true, Timeout: 1500 * time.Millisecond})
			events := read(t, stream, 3)
			if want := []source.EventType{source.Added, source.Added, source.Bookmark}; !slices.Equal(types(events), want) {
				t.Fatalf("initial events: %v", types(events))
			}
			check(t, events[0].Object)
			if e := events[2]; !e.InitialEventsEnd || e.ResourceVersion != result.ResourceVersion {
				t.Errorf("bookmark: %+v", e)
			}
			rv = s.Update(make("a", "x"))
			if e := read(t, stream, 1)[0]; e.Type != source.Modified || e.ResourceVersion != rv {
				t.Errorf("update: %+v", e)
			} else {
				check(t, e.Object)
			}
			rv = s.Delete(make("a", "x"))
			if e := read(t, stream, 1)[0]; e.Type != source.Deleted || e.ResourceVersion != rv || e.Object.GetName() != "x" {
				t.Errorf("delete: %+v", e)
			}
			// The server ends the watch at its timeout, rounded up.
			read(t, stream, 1)
			if _, err := stream.Next(nil); err != io.EOF {
				t.Errorf("at the timeout: %v", err)
			}
			for _, r := range s.Requests(tidingstest.Any) {
				want := accept
				if r.Kind == tidingstest.List { // a server refuses to show a list as one object
					want = strings.ReplaceAll(want, "as=PartialObjectMetadata;", "as=PartialObjectMetadataList;")
				}
				if got := r.Header.Get("Accept"); got != want {
					t.Errorf("Accept: %s, want %s", got, want)
				}
			}
			if stats := from.Stats(); stats.Objects != 6 || stats.Bytes == 0 || source.WireStats(from).Objects != 6 {
				t.Errorf("stats: %+v, %+v", stats, source.WireStats(from))
			}
		})
	}
}

func TestHTTPProtobuf(t *testing.T) {
	testForm(t, source.Scope{Resource: pods}, "application/vnd.kubernetes.protobuf,application/json",
		func(namespace, name string) object.Object { return pod(namespace, name) },
		func(t *testing.T, o *corev1.Pod) {
			if o.Kind != "" || o.APIVersion != "" || o.Spec.Containers[1].Image != "j" {
				t.Errorf("got %+v", o)
			}
		})
}

func TestHTTPUnstructured(t *testing.T) {
	check := func(kind schema.GroupVersionKind) func(t *testing.T, o *unstructured.Unstructured) {
		return func(t *testing.T, o *unstructured.Unstructured) {
			if o.GroupVersionKind() != kind {
				t.Errorf("kind %v, want %v", o.GroupVersionKind(), kind)
			}
		}
	}
	t.Run("custom", func(t *testing.T) {
		testForm(t, source.Scope{Resource: widgets}, "application/json",
			func(namespace, name string) object.Object { return widget(namespace, name) },
			check(widgets.GroupVersion().WithKind("Widget")))
	})
	t.Run("built-in", func(t *testing.T) {
		testForm(t, source.Scope{Resource: pods, Kind: pods.GroupVersion().WithKind("Pod")}, "application/json",
			func(namespace, name string) object.Object { return pod(namespace, name) },
			check(pods.GroupVersion().WithKind("Pod")))
	})
}

func TestHTTPMetadata(t *testing.T) {
	const accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	for _, kind := range []schema.GroupVersionKind{{}, pods.GroupVersion().WithKind("Pod")} {
		want := kind
		if kind.Empty() {
			want = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
		}
		testForm(t, source.Scope{Resource: pods, Kind: kind}, accept,
			func(namespace, name string) object.Object { return pod(namespace, name) },
			func(t *testing.T, o *metav1.PartialObjectMetadata) {
				if o.GroupVersionKind() != want || o.Labels["app"] != o.Name {
					t.Errorf("got %+v", o)
				}
			})
	}
}

func TestHTTPCustomType(t *testing.T) {
	testForm(t, source.Scope{Resource: widgets}, "application/json",
		func(namespace, name string) object.Object { return widget(namespace, name) },
		func(t *testing.T, o *Widget) {
			if o.Kind != "" || o.Spec.Size != 3 || !slices.Equal(o.Spec.Parts, []string{"a", "b"}) {
				t.Errorf("got %+v", o)
			}
		})
}

func TestHTTPQueries(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		for i := range 3 {
			s.Create(pod("a", fmt.Sprint("p", i)))
		}
		s.Create(pod("b", "p1"))
		from := newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods, Namespace: "a", Labels: "app in (p0,p1,p2)", Fields: "metadata.name!=p0"})
		objects, result := mustList(t, from, source.ListOptions[*corev1.Pod]{Limit: 1})
		if got := names(objects); !slices.Equal(got, []string{"p1"}) || result.Continue == "" {
			t.Fatalf("first page: %v, %+v", got, result)
		}
		objects, result = mustList(t, from, source.ListOptions[*corev1.Pod]{Limit: 1, Continue: result.Continue})
		if got := names(objects); !slices.Equal(got, []string{"p2"}) || result.Continue != "" {
			t.Fatalf("second page: %v, %+v", got, result)
		}
		mustList(t, from, source.ListOptions[*corev1.Pod]{Limit: 1, ResourceVersion: "0"}) // which a server does not page
		mustWatch(t, from, source.WatchOptions[*corev1.Pod]{ResourceVersion: result.ResourceVersion, Timeout: 1001 * time.Millisecond})
		mustWatch(t, from, source.WatchOptions[*corev1.Pod]{SendInitialEvents: true})

		both := "fieldSelector=metadata.name%21%3Dp0&labelSelector=app+in+%28p0%2Cp1%2Cp2%29"
		want := []string{
			both + "&limit=1",
			"continue=TOKEN&" + both + "&limit=1",
			both + "&limit=1&resourceVersion=0",
			"allowWatchBookmarks=true&" + both + "&resourceVersion=" + result.ResourceVersion + "&timeoutSeconds=2&watch=1",
			"allowWatchBookmarks=true&" + both + "&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=1",
		}
		for i, r := range s.Requests(tidingstest.Any) {
			if r.Query.Has("continue") {
				r.Query.Set("continue", "TOKEN")
			}
			if got := r.Query.Encode(); got != want[i] || r.Namespace != "a" {
				t.Errorf("request %d: namespace %s, %s\nwant %s", i, r.Namespace, got, want[i])
			}
		}
	})
}

func TestHTTPEachEndsList(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		s.Create(pod("a", "x"))
		s.Create(pod("a", "y"))
		enough, calls := errors.New("enough"), 0
		_, err := newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods}).List(t.Context(), source.ListOptions[*corev1.Pod]{},
			func(*corev1.Pod) error { calls++; return enough })
		if err != enough || calls != 1 {
			t.Errorf("%d calls, %v", calls, err)
		}
	})
}

// holding is a Previous that knows these objects.
func holding[T object.Object](objects ...T) source.Previous[T] {
	return func(key object.Key) (T, bool) {
		i := slices.IndexFunc(objects, func(o T) bool { return object.KeyOf(o) == key })
		if i < 0 {
			var zero T
			return zero, false
		}
		return objects[i], true
	}
}

// TestHTTPPrevious: an unchanged object of a built-in type is returned again, and a new version shares equal parts.
func TestHTTPPrevious(t *testing.T) {
	source.PlanAtOnce(t)
	for _, noSharing := range []bool{false, true} {
		bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
			s.Create(pod("a", "x"))
			s.Create(pod("a", "y"))
			from := newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods})
			objects, _ := mustList(t, from, source.ListOptions[*corev1.Pod]{NoSharing: noSharing})
			previous := holding(objects...)
			changed := pod("a", "y")
			changed.Labels["more"] = "m"
			s.Update(changed)
			shares := func(o *corev1.Pod) bool { return &o.Spec.Containers[0] == &objects[1].Spec.Containers[0] }
			again, _ := mustList(t, from, source.ListOptions[*corev1.Pod]{Previous: previous, NoSharing: noSharing})
			if again[0] != objects[0] || again[1] == objects[1] || shares(again[1]) == noSharing {
				t.Error("the list does not reuse exactly what has not changed")
			}
			stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{SendInitialEvents: true, Previous: previous, NoSharing: noSharing})
			if events := read(t, stream, 3); events[0].Object != objects[0] || events[1].Object == objects[1] || shares(events[1].Object) == noSharing {
				t.Error("the initial events do not reuse exactly what has not changed")
			}
			if got := from.Stats(); got.Reused != 2 || got.Objects != 4 {
				t.Errorf("stats: %+v", got)
			}
			changed.Labels["more"] = "n"
			s.Update(changed)
			if e := read(t, stream, 1)[0]; shares(e.Object) == noSharing || e.Object.Labels["more"] != "n" {
				t.Error("an event behind the initial ones does not take over exactly what has not changed")
			}
		})
	}
}

// TestNoSharing: writes to objects that were requested without sharing are visible nowhere else, whatever else is read
// from the same source.
func TestNoSharing(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		for i := range 50 {
			p := pod("a", fmt.Sprint("p", i))
			p.Labels = map[string]string{"app": "same"}
			s.Create(p)
			w := widget("a", fmt.Sprint("w", i))
			s.Create(w)
		}
		testNoSharing(t, newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods}), func(p *corev1.Pod) { p.Labels["app"], p.Spec.Containers[0].Image = "spoilt", "spoilt" })
		testNoSharing(t, newHTTP[*unstructured.Unstructured](t, s, source.Scope{Resource: widgets}), func(u *unstructured.Unstructured) {
			u.Object["spec"].(map[string]any)["size"] = "spoilt"
		})
		testNoSharing(t, newHTTP[*Widget](t, s, source.Scope{Resource: widgets}), func(w *Widget) { w.Spec.Parts[0] = "spoilt" })
		fromClient, err := source.FromClient[*corev1.Pod](fake.NewClientset(pod("a", "x"), pod("a", "y")).CoreV1().Pods("a"), source.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		testNoSharing(t, fromClient, func(p *corev1.Pod) { p.Labels["app"] = "spoilt" })
		stored := []*corev1.Pod{pod("a", "x"), pod("a", "y")}
		testNoSharing(t, source.Funcs[*corev1.Pod]{
			ListFunc: func(_ context.Context, _ source.ListOptions[*corev1.Pod], each func(*corev1.Pod) error) (source.ListResult, error) {
				return source.ListResult{ResourceVersion: "1"}, errors.Join(each(stored[0]), each(stored[1]))
			},
			WatchFunc: func(ctx context.Context, _ source.WatchOptions[*corev1.Pod]) (source.Stream[*corev1.Pod], error) {
				w := watch.NewFakeWithChanSize(2, false)
				w.Add(stored[0])
				w.Add(stored[1])
				return source.NewStream[*corev1.Pod](ctx, w), nil
			},
		}, func(p *corev1.Pod) { p.Labels["app"] = "spoilt" })
	})
}

func testNoSharing[T object.Object](t *testing.T, from source.ListerWatcher[T], write func(T)) {
	t.Helper()
	for _, stream := range []bool{false, true} {
		shared, result := mustList(t, from, source.ListOptions[T]{})
		want := make([]runtime.Object, len(shared))
		for i, o := range shared {
			want[i] = o.DeepCopyObject()
		}
		owned, _ := mustList(t, from, source.ListOptions[T]{NoSharing: true, Previous: holding(shared[:0]...)})
		if stream {
			opts := source.WatchOptions[T]{NoSharing: true, SendInitialEvents: true, Previous: holding(shared[:0]...)}
			w, err := from.Watch(t.Context(), opts)
			if errors.Is(err, errors.ErrUnsupported) {
				return // a client
			}
			if err != nil {
				t.Fatal(err)
			}
			owned = owned[:0]
			for _, e := range read(t, w, len(shared))[:len(shared)] {
				owned = append(owned, e.Object)
			}
			w.Close()
		}
		for i := range owned {
			if i%2 == 0 {
				write(owned[i])
			}
		}
		again, _ := mustList(t, from, source.ListOptions[T]{ResourceVersion: result.ResourceVersion})
		for i := range want {
			if !apiequality.Semantic.DeepEqual(runtime.Object(shared[i]), want[i]) || !apiequality.Semantic.DeepEqual(runtime.Object(again[i]), want[i]) {
				t.Fatalf("%T %d shows what was done to another one", from, i)
			}
			if i%2 == 1 && !apiequality.Semantic.DeepEqual(runtime.Object(owned[i]), want[i]) {
				t.Fatalf("%T %d of the owned ones shows what was done to another one", from, i)
			}
		}
	}
}

// TestNewDefaultsShow: a schema change alters what a server sends for an old version of a custom resource.
func TestNewDefaultsShow(t *testing.T) {
	list := func(size int) string {
		return fmt.Sprintf(`{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"9"},"items":[
			{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"namespace":"a","name":"x","uid":"u","resourceVersion":"5"},"spec":{"size":%d}}]}`, size)
	}
	for _, as := range []func(t *testing.T, client *source.Client) int64{
		func(t *testing.T, client *source.Client) int64 {
			o := relisted[*unstructured.Unstructured](t, client)
			size, _, err := unstructured.NestedInt64(o.Object, "spec", "size")
			if err != nil {
				t.Error(err)
			}
			return size
		},
		func(t *testing.T, client *source.Client) int64 { return relisted[*Widget](t, client).Spec.Size },
	} {
		answers := &scripted{contentType: "application/json", bodies: []string{list(1), list(2)}}
		client, err := source.NewClient(&rest.Config{Host: "http://server.test", Transport: answers})
		if err != nil {
			t.Fatal(err)
		}
		if got := as(t, client); got != 2 {
			t.Errorf("the size is %d after the default became 2", got)
		}
	}
}

// relisted lists widgets twice and returns the only one of the second list.
func relisted[T object.Object](t *testing.T, client *source.Client) T {
	t.Helper()
	from, err := source.NewHTTP[T](client, source.Scope{Resource: widgets})
	if err != nil {
		t.Fatal(err)
	}
	objects, _ := mustList(t, from, source.ListOptions[T]{})
	objects, _ = mustList(t, from, source.ListOptions[T]{Previous: holding(objects...)})
	return objects[0]
}

// scripted answers one request with each of the bodies.
type scripted struct {
	contentType string
	header      http.Header
	bodies      []string
}

func (a *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {a.contentType}}
	maps.Copy(header, a.header)
	body := a.bodies[0]
	a.bodies = a.bodies[1:]
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func TestHTTPTrim(t *testing.T) {
	trim := object.Trim{"metadata.managedFields", "metadata.annotations[note]", "spec.containers.image"}
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		s.Create(pod("a", "x"))
		objects, _ := mustList(t, newHTTP[*unstructured.Unstructured](t, s, source.Scope{Resource: pods, Trim: trim}), source.ListOptions[*unstructured.Unstructured]{})
		o := objects[0]
		if o.GetManagedFields() != nil || !maps.Equal(o.GetAnnotations(), map[string]string{"other": "o"}) || strings.Contains(fmt.Sprint(o.Object), "image") {
			t.Errorf("got %v", o.Object)
		}
		typed, _ := mustList(t, newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods, Trim: trim}), source.ListOptions[*corev1.Pod]{})
		if p := typed[0]; p.ManagedFields != nil || !maps.Equal(p.Annotations, map[string]string{"other": "o"}) || p.Spec.Containers[1].Image != "" || p.Spec.Containers[1].Name != "d" {
			t.Errorf("got %+v", p)
		}
		// A trimmed annotation must not hide the end of the initial events.
		stream := mustWatch(t, newHTTP[*unstructured.Unstructured](t, s, source.Scope{Resource: pods, Trim: object.Trim{"metadata.annotations"}}),
			source.WatchOptions[*unstructured.Unstructured]{SendInitialEvents: true})
		if events := read(t, stream, 2); !events[1].InitialEventsEnd {
			t.Errorf("got %+v", events)
		}
	})
}

// TestDropManagedFields: servers are asked to leave out managed fields that are trimmed anyway. Whether they do that,
// ignore it, or choose a media type without parameters, the objects are the same.
func TestDropManagedFields(t *testing.T) {
	trim := object.Trim{"metadata.managedFields"}
	for name, accepts := range map[string]func(string) string{
		"ignores it": func(accept string) string { return accept },
		"refuses it": func(accept string) string {
			clauses := strings.Split(accept, ",")
			return strings.Join(slices.DeleteFunc(clauses, func(c string) bool { return strings.Contains(c, "drop") }), ",")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
				config := s.Config()
				config.Wrap(func(next http.RoundTripper) http.RoundTripper {
					return roundTripper(func(r *http.Request) (*http.Response, error) {
						if !strings.Contains(r.Header.Get("Accept"), ";drop=metadata.managedFields") {
							t.Errorf("accepts %s", r.Header.Get("Accept"))
						}
						r = r.Clone(r.Context())
						r.Header.Set("Accept", accepts(r.Header.Get("Accept")))
						return next.RoundTrip(r)
					})
				})
				managed := pod("a", "x")
				managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: "Update"}}
				s.Create(managed)
				if o := s.Objects(pods); len(o) != 1 || o[0].GetManagedFields() == nil {
					t.Fatal("the server has no managed fields")
				}
				dropped[*corev1.Pod](t, config, source.Scope{Resource: pods, Trim: trim})
				dropped[*unstructured.Unstructured](t, config, source.Scope{Resource: pods, Trim: trim})
				dropped[*metav1.PartialObjectMetadata](t, config, source.Scope{Resource: pods, Trim: trim})
			})
		})
	}
}

func dropped[T object.Object](t *testing.T, config *rest.Config, scope source.Scope) {
	t.Helper()
	client, err := source.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	from, err := source.NewHTTP[T](client, scope)
	if err != nil {
		t.Fatal(err)
	}
	objects, _ := mustList(t, from, source.ListOptions[T]{})
	event := read(t, mustWatch(t, from, source.WatchOptions[T]{SendInitialEvents: true}), 1)[0]
	for _, o := range []T{objects[0], event.Object} {
		if o.GetName() != "x" || o.GetLabels() == nil || o.GetManagedFields() != nil {
			t.Errorf("got %+v", o)
		}
	}
}

func TestHTTPBatches(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		for i := range 700 {
			s.Create(pod("a", fmt.Sprintf("p%03d", i)))
		}
		stream := mustWatch(t, newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods}), source.WatchOptions[*corev1.Pod]{SendInitialEvents: true})
		largest, total := 0, 0
		for end := false; !end; {
			batch, err := stream.Next(nil)
			if err != nil {
				t.Fatal(err)
			}
			largest, total = max(largest, len(batch)), total+len(batch)
			end = batch[len(batch)-1].InitialEventsEnd
		}
		if total != 701 || largest < 10 || largest > 512 {
			t.Errorf("%d events, the largest batch has %d", total, largest)
		}
	})
}

// TestHTTPConcurrently lets lists and watches share the source's decoders.
func TestHTTPConcurrently(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		for i := range 100 {
			s.Create(pod("a", fmt.Sprint("p", i)))
		}
		from := newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods})
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if objects, _, err := list(t.Context(), from, source.ListOptions[*corev1.Pod]{}); err != nil || len(objects) != 100 {
					t.Errorf("%d objects, %v", len(objects), err)
				}
			})
			stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{SendInitialEvents: true})
			all.Go(func() {
				var events []source.Event[*corev1.Pod]
				for err := error(nil); len(events) < 101 && err == nil; {
					events, err = stream.Next(events)
				}
				if len(events) != 101 || !events[100].InitialEventsEnd {
					t.Errorf("%d events", len(events))
				}
			})
		}
		all.Wait()
		if got := from.Stats().Objects; got != 800 {
			t.Errorf("%d objects", got)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
