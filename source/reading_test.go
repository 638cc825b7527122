package source_test

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// answeredBy returns a source of pods whose requests all get the response.
func answeredBy(t *testing.T, answer http.RoundTripper, timeout time.Duration) *source.HTTP[*corev1.Pod] {
	t.Helper()
	client, err := source.NewClient(&rest.Config{Host: "http://server.test", Transport: answer, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	from, err := source.NewHTTP[*corev1.Pod](client, source.Scope{Resource: pods})
	if err != nil {
		t.Fatal(err)
	}
	return from
}

// decoder is an intake.Decoder made of a function.
type decoder[T object.Object] func(*intake.Encoded[T]) (intake.Received[T], error)

func (decoder[T]) Begin()                                                    {}
func (d decoder[T]) Decode(e *intake.Encoded[T]) (intake.Received[T], error) { return d(e) }

// TestDecode: what the decoder is told of objects. Only built-in objects in protobuf have one encoding for each
// version, and trimmed ones, or those that the caller writes to, are not what the encoding says.
func TestDecode(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		s.Create(pod("a", "x"))
		s.Create(pod("a", "y"))
		decodedBy(t, newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods}), false, true, true)
		decodedBy(t, newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods}), true, true, false)
		decodedBy(t, newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods,
			Trim: object.Trim{"metadata.managedFields"}}), false, true, false)
		decodedBy(t, newHTTP[*unstructured.Unstructured](t, s, source.Scope{Resource: pods}), false, false, false)
		decodedBy(t, newHTTP[*metav1.PartialObjectMetadata](t, s, source.Scope{Resource: pods}), false, false, false)
	})
}

// decodedBy lists and watches with a decoder. What it returns instead of another object is passed on, with its state,
// and an unchanged object need not be there.
func decodedBy[T object.Object](t *testing.T, from *source.HTTP[T], noSharing, stable, exact bool) {
	t.Helper()
	var names []string
	var instead []T
	took := from.Stats()
	decode := decoder[T](func(e *intake.Encoded[T]) (r intake.Received[T], err error) {
		if len(e.Data) == 0 || e.Stable != stable || e.Exact != exact || !e.Reuse || e.Key.Namespace != "a" ||
			e.UID == "" || e.Version == "" {
			t.Errorf("%T arrives as %+v", r.Object, e)
		}
		if names = append(names, strings.Clone(e.Key.Name)); e.Key.Name == "y" {
			return intake.Received[T]{Unchanged: true, State: known{e.Key.Clone(), strings.Clone(e.Version)}}, nil
		}
		o, err := e.Decode(r.Object, nil)
		r.Object = o.DeepCopyObject().(T)
		instead = append(instead, r.Object)
		return r, err
	})
	var got []intake.Received[T]
	previous := func(object.Key) (none T, ok bool) {
		t.Error("the caller is asked for objects, although it decodes")
		return none, false
	}
	internals := source.InternalsOf(from)
	opts := source.ListOptions[T]{Previous: previous, NoSharing: noSharing}
	_, err := internals.ListDecoded(t.Context(), opts, decode, func(r intake.Received[T]) error {
		got = append(got, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := internals.WatchDecoded(t.Context(), source.WatchOptions[T]{
		SendInitialEvents: true, Previous: previous, NoSharing: noSharing,
	}, decode)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for ended := false; !ended && err == nil; {
		err = stream.(interface {
			NextDecoded(func(source.Event[T], intake.Received[T])) error
		}).NextDecoded(func(e source.Event[T], r intake.Received[T]) {
			if ended = e.InitialEventsEnd; !ended {
				got = append(got, r)
				if any(e.Object) != any(r.Object) || e.ResourceVersion != r.Version() {
					t.Errorf("the event %+v has %+v", e, r)
				}
			}
		})
	}
	if !slices.Equal(names, []string{"x", "y", "x", "y"}) || len(got) != 4 {
		t.Fatalf("%v: %d of %v", err, len(got), names)
	}
	for i, r := range got {
		if unchanged := i%2 == 1; r.Unchanged != unchanged || r.Key().Name != names[i] ||
			!unchanged && any(r.Object) != any(instead[i/2]) {
			t.Errorf("%s came as %+v", names[i], r)
		}
	}
	if st := from.Stats(); st.Objects != took.Objects+2 || st.Reused != took.Reused+2 {
		t.Errorf("%+v after %+v", st, took)
	}
}

// known is the state of an object whose caller has it.
type known struct {
	key     object.Key
	version string
}

func (k known) Key() object.Key         { return k.key }
func (k known) UID() apitypes.UID       { return "" }
func (k known) ResourceVersion() string { return k.version }

// TestTakesOverWhatOthersDecoded: a source that has not decoded anything yet reuses parts of the caller's objects.
func TestTakesOverWhatOthersDecoded(t *testing.T) {
	source.PlanAtOnce(t)
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		s.Create(pod("a", "x"))
		scope := source.Scope{Resource: pods}
		objects, _ := mustList(t, newHTTP[*corev1.Pod](t, s, scope), source.ListOptions[*corev1.Pod]{})
		changed := pod("a", "x")
		changed.Labels["new"] = "label"
		s.Update(changed)
		shares := func(held *corev1.Pod) bool {
			again, _ := mustList(t, newHTTP[*corev1.Pod](t, s, scope), source.ListOptions[*corev1.Pod]{Previous: holding(held)})
			return again[0] != held && again[0].Labels["new"] == "label" && &again[0].Spec.Containers[0] == &held.Spec.Containers[0]
		}
		tries := 0
		for !shares(objects[0]) { // one version in sixteen is decoded anew, at random
			if tries++; tries == 20 {
				t.Fatal("the new version does not take over what has not changed")
			}
		}
		other := objects[0].DeepCopy()
		other.UID = "other"
		if shares(other) {
			t.Error("another object under the same key counts as an earlier version")
		}
	})
}

// TestDecodePrevious: if the encoding of the previous object is known, that is compared with the
// new one instead of the object, unless the caller will write to objects.
func TestDecodePrevious(t *testing.T) {
	source.PlanAtOnce(t)
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		s.Create(pod("a", "x"))
		from := newHTTP[*corev1.Pod](t, s, source.Scope{Resource: pods})
		var data []byte
		var held *corev1.Pod
		_, err := source.InternalsOf(from).ListDecoded(t.Context(), source.ListOptions[*corev1.Pod]{},
			decoder[*corev1.Pod](func(e *intake.Encoded[*corev1.Pod]) (r intake.Received[*corev1.Pod], err error) {
				if e.Reuse {
					t.Errorf("nobody holds %v", e.Key)
				}
				data = slices.Clone(e.Data)
				r.Object, err = e.Decode(nil, nil)
				return r, err
			}), func(r intake.Received[*corev1.Pod]) error {
				held = r.Object.DeepCopy()
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		held.Spec.NodeName = "nobody compares it"
		changed := pod("a", "x")
		changed.Labels["new"] = "label"
		s.Update(changed)
		for name, tt := range map[string]struct {
			data            []byte
			noSharing, want bool
		}{"known": {data, false, true}, "unknown": {nil, false, false}, "not to be shared": {data, true, false}} {
			stream, err := source.InternalsOf(from).WatchDecoded(t.Context(), source.WatchOptions[*corev1.Pod]{
				ResourceVersion: held.ResourceVersion, NoSharing: tt.noSharing, Previous: holding(held),
			}, decoder[*corev1.Pod](func(e *intake.Encoded[*corev1.Pod]) (r intake.Received[*corev1.Pod], err error) {
				r.Object, err = e.Decode(held, tt.data)
				return r, err
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			got := read(t, stream, 1)[0].Object
			if taken := got.Spec.NodeName == held.Spec.NodeName; taken != tt.want || got.Labels["new"] != "label" {
				t.Errorf("%s: the spec was taken over: %t, want %t; labels %v", name, taken, tt.want, got.Labels)
			}
		}
	})
}

// TestListsSayWhatTheyAre: a response without a kind is not a list, wherever the kind should have
// been, and one of another kind is rejected.
func TestListsSayWhatTheyAre(t *testing.T) {
	kind := func(err error) bool { _, ok := errors.AsType[*source.KindError](err); return ok }
	says := func(text string) func(error) bool {
		return func(err error) bool { return err != nil && strings.Contains(err.Error(), text) }
	}
	for name, tt := range map[string]struct {
		body string
		want func(error) bool
		n    int
	}{
		"kind first":                {`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}],"metadata":{}}`, func(err error) bool { return err == nil }, 1},
		"kind last":                 {`{"items":[{"metadata":{"name":"a"}}],"metadata":{},"kind":"PodList","apiVersion":"v1"}`, func(err error) bool { return err == nil }, 1},
		"no kind":                   {`{"items":[{"metadata":{"name":"a"}}],"metadata":{}}`, says("it is not a list"), 1},
		"no kind and no items":      {`{}`, says("it is not a list"), 0},
		"another kind":              {`{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"a"}}],"metadata":{}}`, kind, 0},
		"another kind, last":        {`{"items":[{"metadata":{"name":"a"}}],"metadata":{},"kind":"NodeList","apiVersion":"v1"}`, kind, 1},
		"an object of another kind": {`{"kind":"PodList","apiVersion":"v1","items":[{"kind":"Widget","apiVersion":"v1","metadata":{"name":"a"},"spec":7}]}`, kind, 0},
	} {
		t.Run(name, func(t *testing.T) {
			objects, _, err := list(t.Context(), answeredBy(t, &sameAnswer{code: 200, contentType: "application/json", body: tt.body}, 0), source.ListOptions[*corev1.Pod]{})
			if !tt.want(err) || len(objects) != tt.n {
				t.Errorf("%d objects, %v", len(objects), err)
			}
		})
	}
}

// late responds after some time, even if the request has ended by then.
type late struct {
	sameAnswer
	after time.Duration
}

func (l *late) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(l.after)
	return l.sameAnswer.RoundTrip(r)
}

// TestAnswerBehindTheTimeout arrives after the request was abandoned.
func TestAnswerBehindTheTimeout(t *testing.T) {
	for _, tt := range []struct{ after, timeout time.Duration }{{time.Second, time.Minute}, {time.Hour, time.Minute}, {time.Hour, 0}} {
		synctest.Test(t, func(t *testing.T) {
			answer := &late{sameAnswer{code: 200, contentType: "application/json"}, tt.after}
			stream, err := answeredBy(t, answer, tt.timeout).Watch(t.Context(), source.WatchOptions[*corev1.Pod]{})
			if tooLate := tt.timeout > 0 && tt.after > tt.timeout; tooLate {
				if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "rest.Config.Timeout") || !answer.bodies[0].closed {
					t.Errorf("%+v: %v, closed %t", tt, err, answer.bodies[0].closed)
				}
				return
			}
			if err != nil {
				t.Fatalf("%+v: %v", tt, err)
			}
			time.Sleep(time.Hour)
			if answer.ctxs[0].Err() != nil {
				t.Error("the timeout has ended a watch that had begun")
			}
			stream.Close()
		})
	}
}

// TestBrokenGzip begins with one byte of a member, and ends there.
func TestBrokenGzip(t *testing.T) {
	header := http.Header{"Content-Encoding": {"gzip"}}
	from := answeredBy(t, &scripted{contentType: "application/json", header: header, bodies: []string{"\x1f"}}, 0)
	if _, err := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{}).Next(nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}

// TestNamesOfGzip: the name of a content coding is case-insensitive.
func TestNamesOfGzip(t *testing.T) {
	var packed strings.Builder
	zip := gzip.NewWriter(&packed)
	_, _ = zip.Write([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}`))
	_ = zip.Close()
	for _, name := range []string{"gzip", "GZIP"} {
		from := answeredBy(t, &scripted{contentType: "application/json", header: http.Header{"Content-Encoding": {name}}, bodies: []string{packed.String()}}, 0)
		if objects, _, err := list(t.Context(), from, source.ListOptions[*corev1.Pod]{}); err != nil || len(objects) != 1 {
			t.Errorf("%s: %d objects, %v", name, len(objects), err)
		}
	}
}

// TestClusterIDClosesItsAnswer releases the connection.
func TestClusterIDClosesItsAnswer(t *testing.T) {
	answer := &sameAnswer{code: 200, contentType: "application/json", body: `{"metadata":{"uid":"u"}}`}
	client, err := source.NewClient(&rest.Config{Host: "http://server.test", Transport: answer})
	if err != nil {
		t.Fatal(err)
	}
	if id, ok, err := client.ClusterID(t.Context()); id != "u" || !ok || err != nil || !answer.bodies[0].closed {
		t.Errorf("got %q, %t, %v; closed %t", id, ok, err, answer.bodies[0].closed)
	}
}

// TestMetadataCounts: bytes read for metadata are counted, and objects that cannot be decoded are skipped.
func TestMetadataCounts(t *testing.T) {
	const body = `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[{"metadata":{"name":"a","labels":7}},{"metadata":{"name":"b","labels":{"app":"x"}}}]}`
	from := answeredBy(t, &sameAnswer{code: 200, contentType: "application/json", body: body}, 0)
	var names []string
	opts := source.ListOptions[*metav1.PartialObjectMetadata]{Skip: func(*source.ObjectError) {}}
	_, err := source.InternalsOf(from).ListMetadata(t.Context(), opts, func(o *metav1.PartialObjectMetadata) error {
		if o.GetLabels() != nil {
			t.Errorf("the labels %v say nothing about who %s is", o.GetLabels(), o.GetName())
		}
		names = append(names, o.GetName())
		return nil
	})
	if err != nil || from.Stats().Bytes != uint64(len(body)) || !slices.Contains(names, "b") {
		t.Errorf("%v, %v, %+v", names, err, from.Stats())
	}
}

// refusing is a client that rejects everything.
type refusing struct{}

var errRefused = errors.New("refused")

func (refusing) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{Items: []corev1.Pod{*pod("a", "x")}}, errRefused
}
func (refusing) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), errRefused
}

func TestClientThatRefuses(t *testing.T) {
	from, err := source.FromClient[*corev1.Pod](refusing{}, source.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	if objects, _, err := list(t.Context(), from, source.ListOptions[*corev1.Pod]{}); err != errRefused || objects != nil {
		t.Errorf("list: %v, %v", objects, err)
	}
	if stream, err := from.Watch(t.Context(), source.WatchOptions[*corev1.Pod]{}); err != errRefused || stream != nil {
		t.Errorf("watch: %v, %v", stream, err)
	}
}

// TestWatchOfUnknownEvents: an event of an unknown type belongs to an object if that has a name.
func TestWatchOfUnknownEvents(t *testing.T) {
	w := watch.NewFakeWithChanSize(5, false)
	stream := source.NewStream[*corev1.Pod](t.Context(), w)
	w.Action("RENAMED", &metav1.Status{})
	w.Action("RENAMED", pod("a", ""))
	w.Action("RENAMED", pod("a", "x"))
	events := read(t, stream, 3)
	for i, e := range events {
		named, ok := errors.AsType[*source.ObjectError](e.Err)
		if e.Type != source.Invalid || ok != (i == 2) || ok && named.Key.Name != "x" {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if err := stream.Close(); err != nil || !w.IsStopped() {
		t.Errorf("closed: %v; the watch is stopped: %t", err, w.IsStopped())
	}
	if _, err := stream.Next(nil); err != source.ErrClosed {
		t.Errorf("Next of a closed stream: %v", err)
	}
	for range 30 { // whether the end of the watch is seen first or Close
		stream := source.NewStream[*corev1.Pod](t.Context(), watch.NewFake())
		stream.Close()
		if _, err := stream.Next(nil); err != source.ErrClosed {
			t.Fatalf("Next of a closed stream: %v", err)
		}
	}
}

// TestBatchesAreBounded returns at most several hundred events at once.
func TestBatchesAreBounded(t *testing.T) {
	const event = `{"type":"ADDED","object":{"metadata":{"name":"a"}}}`
	from := answeredBy(t, &sameAnswer{code: 200, contentType: "application/json", body: strings.Repeat(event, 1200)}, 0)
	stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{})
	most := 0
	for n := 0; n < 1200; {
		batch, err := stream.Next(nil)
		if err != nil {
			t.Fatal(err)
		}
		n, most = n+len(batch), max(most, len(batch))
	}
	if most != 512 {
		t.Errorf("at most %d events came at once", most)
	}
}

// TestListOfNothingKnown: a client whose lists do not state their kind is accepted.
func TestListOfNothingKnown(t *testing.T) {
	from, err := source.FromClient[*corev1.Pod](fixed[*metav1.Status]{list: &metav1.Status{}}, source.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := list(t.Context(), from, source.ListOptions[*corev1.Pod]{}); err == nil {
		t.Error("a list of a Status")
	}
}

// TestOneWarning is passed on like several, and a Status instead of a list is returned as an error.
func TestOneWarning(t *testing.T) {
	var got warnings
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden"}`
	client, err := source.NewClient(&rest.Config{
		Host: "http://server.test", WarningHandler: &got,
		Transport: &scripted{contentType: "application/json", header: http.Header{"Warning": {`299 - "old"`}}, bodies: []string{body}},
	})
	if err != nil {
		t.Fatal(err)
	}
	from, err := source.NewHTTP[*Widget](client, source.Scope{Resource: widgets})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = list(t.Context(), from, source.ListOptions[*Widget]{})
	if _, asked := apierrors.SuggestsClientDelay(err); asked {
		t.Errorf("a delay that nobody asked for: %v", err)
	}
	if len(got) != 1 || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "403") {
		t.Errorf("warnings %q, %v", got, err)
	}
}
