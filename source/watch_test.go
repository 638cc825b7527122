package source_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

func TestInvalidEvents(t *testing.T) {
	elsewhere := pod("other", "x")
	elsewhere.UID = "u"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "5", Namespace: "a"}}
	tests := []struct {
		name  string
		event tidingstest.RawEvent
		text  string
		names *source.ObjectError
	}{
		{"nameless", tidingstest.RawEvent{Type: watch.Added, Object: pod("a", "")}, "without a name", nil},
		{"wrong kind", tidingstest.RawEvent{Type: watch.Added, Object: node}, "Kind=Node where /v1, Kind=Pod is wanted",
			&source.ObjectError{Key: object.Key{Namespace: "a", Name: "n"}, ResourceVersion: "5", Event: source.Added}},
		{"other namespace", tidingstest.RawEvent{Type: watch.Modified, Object: elsewhere}, `not in namespace "a"`,
			&source.ObjectError{Key: object.Key{Namespace: "other", Name: "x"}, UID: "u", Event: source.Modified}},
		{"unknown type", tidingstest.RawEvent{Type: "RENAMED", Object: elsewhere}, `"RENAMED"`,
			&source.ObjectError{Key: object.Key{Namespace: "other", Name: "x"}, UID: "u", Event: source.Invalid}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bothEncodings(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server, from anySource) {
				s.Create(pod("a", "x"))
				s.Create(pod("a", "y"))
				s.Inject(tidingstest.Any, tidingstest.Fault{After: 1, Events: []tidingstest.RawEvent{test.event}})
				stream, err := from.watch(t.Context(), false)
				if err != nil {
					t.Fatal(err)
				}
				events, err := stream.all()
				want := []source.EventType{source.Added, source.Invalid, source.Added, source.Bookmark}
				if got := types(events); !slices.Equal(got, want) || err != io.EOF {
					t.Fatalf("got %v, %v", got, err)
				}
				err = events[1].Err
				if !strings.Contains(err.Error(), test.text) {
					t.Errorf("got %v, want %q", err, test.text)
				}
				e, ok := err.(*source.ObjectError)
				if want := test.names; ok != (want != nil) || ok && (e.Key != want.Key || e.UID != want.UID || e.ResourceVersion != want.ResourceVersion || e.Event != want.Event) {
					t.Errorf("got %#v, want %#v", err, want)
				}
			})
		})
	}
}

// TestWatchOfAnotherKind: initial events and bookmarks of another kind end a watch, also if the collection is empty.
func TestWatchOfAnotherKind(t *testing.T) {
	for _, objects := range []int{0, 1} {
		for _, initial := range []bool{true, false} {
			bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
				for i := range objects {
					s.Create(pod("a", fmt.Sprint("x", i)))
				}
				wrong := source.Scope{Resource: pods, Kind: pods.GroupVersion().WithKind("Service")}
				for _, from := range []anySource{
					erase(newHTTP[*corev1.Pod](t, s, wrong)), erase(newHTTP[*unstructured.Unstructured](t, s, wrong)),
					erase(newHTTP[*corev1.Service](t, s, source.Scope{Resource: pods})),
				} {
					stream, err := from.watch(t.Context(), initial)
					if err != nil {
						t.Fatal(err)
					}
					events, err := stream.all()
					if !isKindError(err, "Pod", "Service") {
						t.Errorf("%d objects: got %v", objects, err)
					}
					for _, e := range events {
						if e.Type != source.Invalid || initial {
							t.Errorf("%d objects: got %+v", objects, e)
						}
					}
					if _, err := from.list(t.Context()); !isKindError(err, "PodList", "ServiceList") {
						t.Errorf("list of %d objects: got %v", objects, err)
					}
				}
			})
		}
	}
}

func TestWatchEndings(t *testing.T) {
	huge := pod("a", "huge")
	huge.Annotations["big"] = strings.Repeat("x", 200_000)
	expired := apierrors.NewResourceExpired("too old")
	raw := func(b string) []tidingstest.RawEvent { return []tidingstest.RawEvent{{Raw: []byte(b)}} }
	tests := []struct {
		name  string
		fault tidingstest.Fault
		is    func(error) bool
	}{
		{"clean", tidingstest.Fault{After: 1, End: tidingstest.Close}, func(err error) bool { return err == io.EOF }},
		{"cut between events", tidingstest.Fault{After: 1, End: tidingstest.Cut}, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		{"clean end within an event", tidingstest.Fault{After: 1, Events: raw("\x00\x00\x00\x09{"), End: tidingstest.Close}, func(err error) bool { return err != io.EOF }},
		{"410", tidingstest.Fault{After: 1, Events: []tidingstest.RawEvent{tidingstest.ErrorEvent(expired)}}, apierrors.IsResourceExpired},
		{"429", tidingstest.Fault{After: 1, Events: []tidingstest.RawEvent{tidingstest.ErrorEvent(apierrors.NewTooManyRequests("", 3))}}, func(err error) bool {
			seconds, ok := apierrors.SuggestsClientDelay(err)
			return ok && seconds == 3
		}},
		{"ERROR with a pod", tidingstest.Fault{After: 1, Events: []tidingstest.RawEvent{{Type: watch.Error, Object: pod("a", "x")}}},
			func(err error) bool { return strings.Contains(err.Error(), "Status") }},
		{"garbage", tidingstest.Fault{After: 1, Events: raw("<html>this is not the stream you look for")}, func(err error) bool { return !errors.Is(err, io.EOF) }},
		{"huge", tidingstest.Fault{After: 1, Events: []tidingstest.RawEvent{{Type: watch.Added, Object: huge}}}, func(err error) bool {
			e, ok := errors.AsType[*source.TooLargeError](err)
			return ok && e.Limit == 100_000 && strings.Contains(err.Error(), "Scope.MaxObjectBytes")
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bothEncodings(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server, from anySource) {
				s.Create(pod("a", "x"))
				s.Inject(tidingstest.Any, test.fault)
				stream, err := from.watch(t.Context(), false)
				if err != nil {
					t.Fatal(err)
				}
				defer stream.close()
				events, err := stream.all()
				if len(events) != 1 || events[0].Type != source.Added {
					t.Errorf("events %v", types(events))
				}
				if !test.is(err) {
					t.Errorf("got %T %v", err, err)
				}
				if _, again := stream.next(); again == nil || again.Error() != err.Error() {
					t.Errorf("Next again: %v, want %v", again, err)
				}
			})
		})
	}
}

func TestTooLargeNamesObject(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		s.Create(pod("a", "x"))
		scope := podScope
		scope.MaxObjectBytes = 100
		stream := mustWatch(t, newHTTP[*corev1.Pod](t, s, scope), source.WatchOptions[*corev1.Pod]{})
		_, err := stream.Next(nil)
		_, _, listErr := list(t.Context(), newHTTP[*corev1.Pod](t, s, scope), source.ListOptions[*corev1.Pod]{})
		for _, err := range []error{err, listErr} {
			if e, ok := errors.AsType[*source.TooLargeError](err); !ok || e.Key != (object.Key{Namespace: "a", Name: "x"}) || e.Size <= 100 {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestLargeObjects(t *testing.T) {
	bothEncodings(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server, from anySource) {
		for i, size := range []int{90_000, 10, 40_000, 32<<10 - 700, 10} {
			p := pod("a", fmt.Sprint("p", i))
			p.Annotations["big"] = strings.Repeat("x", size)
			s.Create(p)
		}
		stream, err := from.watch(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		events, err := stream.all()
		if err != io.EOF || len(events) != 7 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		objects, err := from.list(t.Context())
		if err != nil || len(objects) != 5 || len(objects[0].GetAnnotations()["big"]) != 90_000 {
			t.Errorf("%d objects, %v", len(objects), err)
		}
	})
}

func TestGzip(t *testing.T) {
	bothEncodings(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server, from anySource) {
		s.Create(pod("a", "x"))
		s.Create(pod("a", "y"))
		s.InjectAlways(tidingstest.Any, tidingstest.Fault{Gzip: true})
		if objects, err := from.list(t.Context()); err != nil || len(objects) != 2 {
			t.Errorf("list: %d objects, %v", len(objects), err)
		}
		stream, err := from.watch(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var events []source.Event[object.Object]
		for len(events) < 3 {
			more, err := stream.next()
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, more...)
		}
		if !events[2].InitialEventsEnd || time.Since(start) != 0 {
			t.Errorf("watch: %v after %v", types(events), time.Since(start))
		}
		if events, err := stream.all(); err != io.EOF || len(events) != 1 {
			t.Errorf("end of the watch: %v, %v", types(events), err)
		}
	})
}

func TestCloseAndCancel(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		testCloseAndCancel(t, tidingstest.ServerOptions{HTTP2: http2})
	}
}

func testCloseAndCancel(t *testing.T, options tidingstest.ServerOptions) {
	bothEncodings(t, options, func(t *testing.T, s *tidingstest.Server, from anySource) {
		s.InjectAlways(tidingstest.Any, tidingstest.Fault{End: tidingstest.Stall})
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		for _, end := range []struct {
			do   func(anyStream)
			want error
		}{
			{func(s anyStream) { s.close(); s.close() }, source.ErrClosed},
			{func(anyStream) { cancel(cause) }, cause},
		} {
			stream, err := from.watch(ctx, false)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error)
			go func() {
				_, err := stream.next()
				ended <- err
			}()
			synctest.Wait()
			end.do(stream)
			if err := <-ended; !errors.Is(err, end.want) {
				t.Errorf("got %v, want %v", err, end.want)
			}
			stream.close()
		}
		if _, err := from.watch(ctx, false); !errors.Is(err, cause) {
			t.Errorf("watch with a context that has ended: %v", err)
		}
		if _, err := from.list(ctx); !errors.Is(err, cause) {
			t.Errorf("list with a context that has ended: %v", err)
		}
	})
}
