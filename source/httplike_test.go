package source_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// TestHTTPLikeTakesOver checks that a source whose type is only known at run time compares objects with the caller's.
func TestHTTPLikeTakesOver(t *testing.T) {
	source.PlanAtOnce(t)
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		s.Create(pod("a", "x"))
		s.Create(pod("a", "y"))
		from := newHTTPLike(t, s, source.Scope{Resource: pods}, &corev1.Pod{})
		first, _ := mustList(t, from, source.ListOptions[object.Object]{})
		changed := pod("a", "y")
		changed.Status.Message = "changed"
		s.Update(changed)
		second, _ := mustList(t, from, source.ListOptions[object.Object]{Previous: holding(first...)})
		if second[0] != first[0] || second[1] == first[1] {
			t.Errorf("of an unchanged and a changed object, handed out again: %t, %t", second[0] == first[0], second[1] == first[1])
		}
		before, after := first[1].(*corev1.Pod), second[1].(*corev1.Pod)
		if &before.Spec.Containers[0] != &after.Spec.Containers[0] || after.Status.Message != "changed" {
			t.Error("the new version did not take over the equal spec of the one before")
		}
		other := func(key object.Key) (object.Object, bool) {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace, UID: after.UID}}, true
		}
		third, _ := mustList(t, from, source.ListOptions[object.Object]{Previous: other})
		if got := third[1].(*corev1.Pod); got.Status.Message != "changed" {
			t.Errorf("with a previous object of another type: %+v", got)
		}
	})
}

func TestHTTPLikeRefuses(t *testing.T) {
	client, err := source.NewClient(&rest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, example := range []object.Object{nil, byValue{}} {
		if _, err := source.NewHTTPLike(client, source.Scope{Resource: pods}, example); err == nil {
			t.Errorf("made a source of %T", example)
		}
	}
}

// byValue is an object that is not a pointer.
type byValue struct{ *corev1.Pod }

// TestHTTPDecodesCustomResourcesAgain has a resource whose contents change without a new version,
// as when its CRD gets a default.
func TestHTTPDecodesCustomResourcesAgain(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		s.Create(widget("a", "x"))
		from := newHTTP[*unstructured.Unstructured](t, s, source.Scope{Resource: widgets})
		objects, _ := mustList(t, from, source.ListOptions[*unstructured.Unstructured]{})
		again, _ := mustList(t, from, source.ListOptions[*unstructured.Unstructured]{Previous: holding(objects...)})
		if again[0] == objects[0] {
			t.Error("a custom resource was taken for unchanged by its version alone")
		}
		if got := from.Stats(); got.Reused != 0 {
			t.Errorf("stats: %+v", got)
		}
	})
}

// TestHTTPSkipsWhatItCannotDecode has objects with the wrong namespace or kind among good ones.
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

// again responds to every request with the same body.
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

// TestHTTPRefusesAnotherKind has collections of the wrong kind, with and without objects.
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
			if !errors.As(err, &kind) || kind.Want.Kind != "WidgetList" || kind.Got.Kind != "PodList" {
				t.Errorf("list: %v, want a KindError", err)
			}
			stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{SendInitialEvents: true})
			if _, err := stream.Next(nil); !errors.As(err, &kind) || kind.Got.Kind != "Pod" {
				t.Errorf("watch: %v, want a KindError", err)
			}
		})
	}
}
