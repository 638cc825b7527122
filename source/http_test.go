package source_test

import (
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// testForm lists and watches one kind of T over both versions of HTTP.
func testForm[T object.Object](t *testing.T, scope source.Scope, accept string, make func(namespace, name string) object.Object, check func(t *testing.T, o T)) {
	for _, http2 := range []bool{false, true} {
		bubble(t, tidingstest.ServerOptions{HTTP2: http2}, func(t *testing.T, s *tidingstest.Server) {
			s.Create(make("a", "x"))
			rv := s.Create(make("b", "y"))
			from := newHTTP[T](t, s, scope)

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
			if stats := from.Stats(); stats.Objects != 6 || stats.Bytes == 0 || from.WireStats().Objects != 6 {
				t.Errorf("stats: %+v, %+v", stats, from.WireStats())
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
		objects, result := mustList(t, from, source.ListOptions[*corev1.Pod]{Limit: 1, ResourceVersion: "0"})
		if got := names(objects); !slices.Equal(got, []string{"p1"}) || result.Continue == "" {
			t.Fatalf("first page: %v, %+v", got, result)
		}
		objects, result = mustList(t, from, source.ListOptions[*corev1.Pod]{Limit: 1, Continue: result.Continue})
		if got := names(objects); !slices.Equal(got, []string{"p2"}) || result.Continue != "" {
			t.Fatalf("second page: %v, %+v", got, result)
		}
		mustWatch(t, from, source.WatchOptions[*corev1.Pod]{ResourceVersion: result.ResourceVersion, Timeout: 1001 * time.Millisecond})
		mustWatch(t, from, source.WatchOptions[*corev1.Pod]{SendInitialEvents: true})

		both := "fieldSelector=metadata.name%21%3Dp0&labelSelector=app+in+%28p0%2Cp1%2Cp2%29"
		want := []string{
			both + "&limit=1&resourceVersion=0",
			"continue=TOKEN&" + both + "&limit=1",
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

// held makes a source.Previous of objects.
func held[T object.Object](objects []T) source.Previous[T] {
	return func(key object.Key) (none T, ok bool) {
		for _, o := range objects {
			if object.KeyOf(o) == key {
				return o, true
			}
		}
		return none, false
	}
}

func TestHTTPHandsOutUnchangedObjectsAgain(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		s.Create(pod("a", "x"))
		s.Create(pod("a", "y"))
		from := newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods})
		objects, _ := mustList(t, from, source.ListOptions[*corev1.Pod]{})
		s.Update(pod("a", "y"))
		again, _ := mustList(t, from, source.ListOptions[*corev1.Pod]{Previous: held(objects)})
		if again[0] != objects[0] || again[1] == objects[1] {
			t.Error("the list does not hand out exactly what has not changed")
		}
		stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{SendInitialEvents: true, Previous: held(objects)})
		if events := read(t, stream, 3); events[0].Object != objects[0] || events[1].Object == objects[1] {
			t.Error("the watch does not hand out exactly what has not changed")
		}
		if got := from.Stats(); got.Reused != 2 || got.Objects != 4 {
			t.Errorf("stats: %+v", got)
		}
	})
}

// TestHTTPDecodesCustomResourcesAgain has a resource whose contents change without a new version, as when its CRD gets a default.
func TestHTTPDecodesCustomResourcesAgain(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		s.Create(widget("a", "x"))
		from := newHTTP[*unstructured.Unstructured](t, s, source.Scope{Resource: widgets})
		objects, _ := mustList(t, from, source.ListOptions[*unstructured.Unstructured]{})
		again, _ := mustList(t, from, source.ListOptions[*unstructured.Unstructured]{Previous: held(objects)})
		if again[0] == objects[0] {
			t.Error("a custom resource was taken for unchanged by its version alone")
		}
		if got := from.Stats(); got.Reused != 0 {
			t.Errorf("stats: %+v", got)
		}
	})
}

// TestHTTPNoSharing lets the caller write to every part of what it gets.
func TestHTTPNoSharing(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		const n = 200
		for i := range n {
			p := pod("a", fmt.Sprintf("p%03d", i))
			p.Labels = map[string]string{"app": "web"}
			p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}}}
			s.Create(p)
		}
		from := newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods})
		shared, _ := mustList(t, from, source.ListOptions[*corev1.Pod]{}) // fills the tables
		objects, _ := mustList(t, from, source.ListOptions[*corev1.Pod]{NoSharing: true})
		stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{SendInitialEvents: true, NoSharing: true, Previous: held(shared[:0])})
		for len(objects) < 2*n {
			for _, e := range read(t, stream, 1) {
				if e.Type == source.Added {
					objects = append(objects, e.Object)
				}
			}
		}
		for i, p := range objects {
			p.Labels["app"], p.Spec.Containers[0].Env[0].Value = fmt.Sprint(i), fmt.Sprint(i)
		}
		for i, p := range objects {
			if want := fmt.Sprint(i); p.Labels["app"] != want || p.Spec.Containers[0].Env[0].Value != want {
				t.Fatalf("what was written to object %d is %v %v: it is shared", i, p.Labels, p.Spec.Containers[0].Env)
			}
		}
		for _, p := range shared {
			if p.Labels["app"] != "web" || p.Spec.Containers[0].Env[0].Value != "1" {
				t.Fatalf("an object of another caller was written to: %v", p.Labels)
			}
		}
	})
}

// TestHTTPSkipsWhatItCannotDecode has objects of another namespace's or kind's looks among good ones.
func TestHTTPSkipsWhatItCannotDecode(t *testing.T) {
	const body = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[
		{"metadata":{"namespace":"a","name":"good","uid":"1","resourceVersion":"3"}},
		{"metadata":{"namespace":"a","name":"bad","uid":"2","resourceVersion":"4"},"spec":{"containers":"none"}},
		{"metadata":{"namespace":"b","name":"elsewhere","uid":"3","resourceVersion":"5"}}]}`
	from := cannedSource(t, "application/json", body)
	var got, skipped []string
	opts := source.ListOptions[*corev1.Pod]{Skip: func(e *source.ObjectError) {
		skipped = append(skipped, fmt.Sprint(e.Key, " ", e.UID, " ", e.ResourceVersion))
	}}
	result, err := from.List(t.Context(), opts, func(p *corev1.Pod) error { got = append(got, p.Name); return nil })
	if err != nil || result.ResourceVersion != "7" {
		t.Fatalf("%+v, %v", result, err)
	}
	if !slices.Equal(got, []string{"good"}) || !slices.Equal(skipped, []string{"a/bad 2 4", "b/elsewhere 3 5"}) {
		t.Errorf("got %v, skipped %v", got, skipped)
	}
	opts.Skip = nil
	var bad *source.ObjectError
	if _, err := from.List(t.Context(), opts, func(*corev1.Pod) error { return nil }); !errors.As(err, &bad) || bad.Key.Name != "bad" {
		t.Errorf("without Skip: %v, want an ObjectError about a/bad", err)
	}
	nameless := cannedSource(t, "application/json", `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"namespace":"a"}}]}`)
	opts.Skip = func(e *source.ObjectError) { t.Errorf("skipped %v", e) }
	if _, err := nameless.List(t.Context(), opts, func(*corev1.Pod) error { return nil }); err == nil {
		t.Error("an item without a name was passed over")
	}
}

// again answers every request with the same body.
type again struct{ contentType, body string }

func (a again) RoundTrip(r *http.Request) (*http.Response, error) {
	return canned{a.contentType, strings.NewReader(a.body)}.RoundTrip(r)
}

func cannedSource(t *testing.T, contentType, body string) *source.HTTP[*corev1.Pod] {
	t.Helper()
	client, err := source.NewClient(&rest.Config{Host: "http://server.test", Transport: again{contentType, body}})
	if err != nil {
		t.Fatal(err)
	}
	from, err := source.NewHTTP[*corev1.Pod](client, source.Scope{Resource: pods, Namespace: "a"})
	if err != nil {
		t.Fatal(err)
	}
	return from
}

// TestHTTPRefusesAnotherKind looks at collections of the wrong kind, with objects and without.
func TestHTTPRefusesAnotherKind(t *testing.T) {
	wrong := pods.GroupVersion().WithKind("Widget")
	for _, filled := range []bool{false, true} {
		bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
			if filled {
				s.Create(pod("a", "x"))
			}
			from := newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods, Kind: wrong})
			_, _, err := list(t.Context(), from, source.ListOptions[*corev1.Pod]{Skip: func(*source.ObjectError) {}})
			var kind *source.KindError
			if !errors.As(err, &kind) || kind.Want != wrong || kind.Got.Kind != "PodList" {
				t.Errorf("list: %v, want a KindError", err)
			}
			stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{SendInitialEvents: true})
			if _, err := stream.Next(nil); !errors.As(err, &kind) || kind.Got.Kind != "Pod" {
				t.Errorf("watch: %v, want a KindError", err)
			}
		})
	}
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
