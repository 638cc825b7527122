package source_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// bothEncodings runs a test for the same pods in protobuf and in JSON.
func bothEncodings(t *testing.T, options tidingstest.ServerOptions, test func(t *testing.T, s *tidingstest.Server, from anySource)) {
	t.Run("protobuf", func(t *testing.T) {
		bubble(t, options, func(t *testing.T, s *tidingstest.Server) {
			test(t, s, erase(newHTTP[*corev1.Pod](t, s, podScope)))
		})
	})
	t.Run("JSON", func(t *testing.T) {
		bubble(t, options, func(t *testing.T, s *tidingstest.Server) {
			test(t, s, erase(newHTTP[*unstructured.Unstructured](t, s, podScope)))
		})
	})
}

var podScope = source.Scope{Resource: pods, Namespace: "a", Kind: pods.GroupVersion().WithKind("Pod"), MaxObjectBytes: 100_000}

// anySource is a source without its type.
type anySource struct {
	list  func(ctx context.Context) ([]object.Object, error)
	watch func(ctx context.Context, initial bool) (anyStream, error)
}

type anyStream struct {
	next  func() ([]source.Event[object.Object], error)
	close func() error
}

// all reads to the end of the stream.
func (s anyStream) all() (events []source.Event[object.Object], err error) {
	for err == nil {
		var more []source.Event[object.Object]
		more, err = s.next()
		events = append(events, more...)
	}
	return events, err
}

func erase[T object.Object](from source.ListerWatcher[T]) anySource {
	return anySource{
		list: func(ctx context.Context) ([]object.Object, error) {
			var all []object.Object
			_, err := from.List(ctx, source.ListOptions[T]{}, func(o T) error {
				all = append(all, o)
				return nil
			})
			return all, err
		},
		watch: func(ctx context.Context, initial bool) (anyStream, error) {
			s, err := from.Watch(ctx, source.WatchOptions[T]{SendInitialEvents: initial, ResourceVersion: "1", Timeout: time.Second})
			if err != nil {
				return anyStream{}, err
			}
			next := func() ([]source.Event[object.Object], error) {
				events, err := s.Next(nil)
				var erased []source.Event[object.Object]
				for _, e := range events {
					erased = append(erased, source.Event[object.Object]{
						Type: e.Type, Object: e.Object, ResourceVersion: e.ResourceVersion, Err: e.Err, InitialEventsEnd: e.InitialEventsEnd,
					})
				}
				return erased, err
			}
			return anyStream{next, s.Close}, nil
		},
	}
}

// answers are complete error responses, with the expected error.
var answers = []struct {
	name  string
	fault tidingstest.Fault
	is    func(error) bool
	text  string
}{
	{"forbidden", tidingstest.Fault{Err: apierrors.NewForbidden(pods.GroupResource(), "", errors.New("no list for you"))}, apierrors.IsForbidden, "no list for you"},
	{"unauthorized", tidingstest.Fault{Err: apierrors.NewUnauthorized("who are you")}, apierrors.IsUnauthorized, "who are you"},
	{"gone", tidingstest.Fault{Err: apierrors.NewResourceExpired("too old")}, apierrors.IsResourceExpired, "too old"},
	{"too many", tidingstest.Fault{Err: apierrors.NewTooManyRequests("slow down", 7)}, func(err error) bool {
		seconds, ok := apierrors.SuggestsClientDelay(err)
		return apierrors.IsTooManyRequests(err) && ok && seconds == 7
	}, "slow down"},
	{"internal", tidingstest.Fault{Err: apierrors.NewInternalError(errors.New("broken"))}, apierrors.IsInternalError, "broken"},
	{"plain text", answer(503, "text/plain", "etcd is down"), apierrors.IsServiceUnavailable, "unable to handle"},
	{"HTML error", answer(502, "text/html", "<html>bad gateway</html>"), apierrors.IsInternalError, "bad gateway"},
	{"no body", answer(403, "", ""), apierrors.IsForbidden, "403"},
	{"broken Status", answer(409, "application/json", `{"kind":`), apierrors.IsConflict, "conflict"},
	{"broken protobuf Status", answer(404, "application/vnd.kubernetes.protobuf", "k8s\x00\xff"), apierrors.IsNotFound, "could not find"},
	{"endless error", answer(500, "text/plain", strings.Repeat("x", 4<<20)), apierrors.IsInternalError, "xxx"},
	{"redirect to nowhere", answer(304, "", ""), func(err error) bool { return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown }, "304"},
	{"login page", answer(200, "text/html; charset=utf-8", "<html>please log in</html>"), isContentType, "please log in"},
	{"unknown type", answer(200, "application/cbor", "\xd9\xd9\xf7"), isContentType, "application/cbor"},
	{"no type", answer(200, ";;", "hello"), isContentType, "neither JSON nor"},
	{"hang up", tidingstest.Fault{HangUp: true}, func(err error) bool { return errors.Is(err, io.EOF) }, "EOF"},
}

func answer(code int, contentType, body string) tidingstest.Fault {
	return tidingstest.Fault{Answer: &tidingstest.Answer{Code: code, ContentType: contentType, Body: []byte(body)}}
}

func isContentType(err error) bool {
	_, ok := errors.AsType[*source.ContentTypeError](err)
	return ok
}

func TestErrorAnswers(t *testing.T) {
	for _, test := range answers {
		t.Run(test.name, func(t *testing.T) {
			bothEncodings(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server, from anySource) {
				s.InjectAlways(tidingstest.Any, test.fault)
				_, listErr := from.list(t.Context())
				_, watchErr := from.watch(t.Context(), true)
				for _, err := range []error{listErr, watchErr} {
					if err == nil || !test.is(err) || !strings.Contains(err.Error(), test.text) || len(err.Error()) > 2000 {
						t.Errorf("got %T %.300v", err, err)
					}
				}
			})
		})
	}
}

func TestUnknownResourceAndOldServer(t *testing.T) {
	bothEncodings(t, tidingstest.ServerOptions{NoWatchList: true}, func(t *testing.T, s *tidingstest.Server, from anySource) {
		if _, err := from.watch(t.Context(), true); !apierrors.IsInvalid(err) {
			t.Errorf("sendInitialEvents to an old server: %v", err)
		}
		s.RemoveResource(pods)
		if _, err := from.list(t.Context()); !apierrors.IsNotFound(err) {
			t.Errorf("unknown resource: %v", err)
		}
		s.Stop()
		if _, err := from.list(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("stopped server: %v", err)
		}
	})
}

func TestListFaults(t *testing.T) {
	nameless, elsewhere := pod("a", ""), pod("other", "x")
	huge := pod("a", "huge")
	huge.Annotations["big"] = strings.Repeat("x", 200_000)
	tests := []struct {
		name  string
		fault tidingstest.Fault
		is    error
		text  string
	}{
		{"cut", tidingstest.Fault{CutAfterBytes: 100}, io.ErrUnexpectedEOF, "broke"},
		{"nameless", tidingstest.Fault{Items: []runtime.Object{nameless}}, nil, "without a name"},
		{"other namespace", tidingstest.Fault{Items: []runtime.Object{elsewhere}}, nil, `object other/x: it is not in namespace "a"`},
		{"huge", tidingstest.Fault{Items: []runtime.Object{huge}}, nil, "100000"},
		{"garbage JSON", answer(200, "application/json", "\x00\x01garbage"), nil, "malformed"},
		{"garbage protobuf", answer(200, "application/vnd.kubernetes.protobuf", "\x00\x01garbage"), nil, "pods"},
		{"other list", answer(200, "application/json", `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`), nil, "NodeList"},
		{"no list", answer(200, "application/json", `{"items":[]}`), nil, "not a list"},
		{"empty protobuf", answer(200, "application/vnd.kubernetes.protobuf", "k8s\x00"), nil, "pods"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			bothEncodings(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server, from anySource) {
				s.Create(pod("a", "x"))
				if test.name == "empty protobuf" || test.name == "garbage protobuf" {
					if from, err := from.list(t.Context()); err != nil || len(from) != 1 {
						t.Fatal(err)
					}
				}
				s.Inject(tidingstest.List, test.fault)
				_, err := from.list(t.Context())
				if err == nil || !strings.Contains(err.Error(), test.text) || test.is != nil && !errors.Is(err, test.is) {
					if !isContentType(err) { // unstructured has no protobuf
						t.Errorf("got %v, want %q", err, test.text)
					}
				}
				if objects, err := from.list(t.Context()); err != nil || len(objects) != 1 {
					t.Errorf("the next list: %v", err)
				}
			})
		})
	}
}

func TestTimeout(t *testing.T) {
	testTimeout(t, source.NewClient)
	testTimeout(t, func(config *rest.Config) (*source.Client, error) {
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, err
		}
		return source.NewClientFor(&rest.Config{Host: config.Host}, client)
	})
}

func testTimeout(t *testing.T, newClient func(*rest.Config) (*source.Client, error)) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		config := s.Config()
		config.Timeout = 10 * time.Second
		client, err := newClient(config)
		if err != nil {
			t.Fatal(err)
		}
		from, err := source.NewHTTP[*corev1.Pod](client, podScope)
		if err != nil {
			t.Fatal(err)
		}
		s.InjectAlways(tidingstest.Any, tidingstest.Fault{Delay: time.Minute})
		start := time.Now()
		_, _, err = list(t.Context(), from, source.ListOptions[*corev1.Pod]{})
		if err == nil || !strings.Contains(err.Error(), "rest.Config.Timeout") || time.Since(start) != 10*time.Second {
			t.Errorf("list: %v after %v", err, time.Since(start))
		}
		if _, err := from.Watch(t.Context(), source.WatchOptions[*corev1.Pod]{}); err == nil || !strings.Contains(err.Error(), "rest.Config.Timeout") {
			t.Errorf("watch: %v", err)
		}
		s.ClearFaults()
		stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{})
		time.AfterFunc(time.Minute/2, func() { s.Create(pod("a", "x")) })
		read(t, stream, 1) // a running watch outlives the timeout
	})
}

// TestBrokenBodies flips bytes in real bodies and truncates them: there may be errors, but neither panics nor hangs.
func TestBrokenBodies(t *testing.T) {
	bothEncodings(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server, from anySource) {
		s.Create(pod("a", "x"))
		for _, query := range []string{"", "?watch=1&resourceVersion=1&timeoutSeconds=1"} {
			for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
				contentType, body := fetch(t, s, query, accept)
				for i := 0; i < len(body); i += 3 {
					broken := bytes.Clone(body)
					broken[i] ^= 0x15
					for _, b := range [][]byte{broken, body[:i]} {
						s.Inject(tidingstest.Any, answer(200, contentType, string(b)))
						if query == "" {
							_, _ = from.list(t.Context())
						} else if stream, err := from.watch(t.Context(), true); err == nil {
							_, _ = stream.all()
							stream.close()
						}
					}
				}
			}
		}
	})
}

func fetch(t testing.TB, s *tidingstest.Server, query, accept string) (contentType string, body []byte) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, s.Config().Host+"/api/v1/pods"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	response, err := s.Config().Transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.Header.Get("Content-Type"), body
}

// TestListSkips: unusable items are skipped if they have a key and the caller sets Skip; all others are returned.
func TestListSkips(t *testing.T) {
	broken := func(name string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"a","name":%q,"uid":"u","resourceVersion":"7"},"spec":{"nodeName":}}`, name)
	}
	page := func(items ...string) string {
		return `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[` + strings.Join(items, ",") + `]}`
	}
	sound := `{"metadata":{"namespace":"a","name":"sound"}}`
	raw := func(p *corev1.Pod) []byte {
		data, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	bad := raw(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "bad", UID: "u", ResourceVersion: "7"}})
	protobuf := "k8s\x00" + string(runtimeUnknown(t, "v1", "PodList",
		protoList(t, "9", append(bad[:len(bad):len(bad)], 0x12, 0x7f), raw(pod("a", "sound")))))
	for name, test := range map[string]struct {
		contentType, body string
		bad               string
	}{
		"JSON":              {"application/json", page(sound, broken("bad")), "bad"},
		"JSON, other names": {"application/json", page(broken(`b"ä`), sound), ""},
		"protobuf":          {"application/vnd.kubernetes.protobuf", protobuf, "bad"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, skips := range []bool{true, false} {
				client, err := source.NewClient(&rest.Config{Host: "http://server.test", Transport: &scripted{contentType: test.contentType, bodies: []string{test.body}}})
				if err != nil {
					t.Fatal(err)
				}
				from, err := source.NewHTTP[*corev1.Pod](client, podScope)
				if err != nil {
					t.Fatal(err)
				}
				var opts source.ListOptions[*corev1.Pod]
				var skipped []*source.ObjectError
				if skips {
					opts.Skip = func(e *source.ObjectError) { skipped = append(skipped, e) }
				}
				objects, result, err := list(t.Context(), from, opts)
				if test.bad == "" || !skips {
					if err == nil {
						t.Error("the list does not fail")
					}
					continue
				}
				if err != nil || !slices.Equal(names(objects), []string{"sound"}) || result.ResourceVersion != "9" || len(skipped) != 1 {
					t.Fatalf("got %v, %+v, %v; skipped %v", names(objects), result, err, skipped)
				}
				if e := skipped[0]; e.Key != (object.Key{Namespace: "a", Name: test.bad}) || e.UID != "u" || e.ResourceVersion != "7" || e.Event != 0 || e.Err == nil {
					t.Errorf("got %+v", e)
				}
			}
		})
	}
}

// protoList encodes a list of encoded items.
func protoList(t *testing.T, resourceVersion string, items ...[]byte) []byte {
	t.Helper()
	meta := &metav1.ListMeta{ResourceVersion: resourceVersion}
	head, err := meta.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	out := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), head)
	for _, item := range items {
		out = protowire.AppendBytes(protowire.AppendTag(out, 2, protowire.BytesType), item)
	}
	return out
}

func runtimeUnknown(t *testing.T, apiVersion, kind string, raw []byte) []byte {
	t.Helper()
	data, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}
