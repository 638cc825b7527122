package source_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

// says is a client that says whether it cannot stream.
type says struct {
	source.ClientGo[*corev1.PodList]
	unsupported bool
}

func (s says) IsWatchListSemanticsUnSupported() bool { return s.unsupported }

// unnumbered is a client that says whether it numbers states.
type unnumbered struct {
	says
	unnumbered bool
}

func (u unnumbered) Unnumbered() bool { return u.unnumbered }

// TestUnnumbered: clients that cannot stream are taken for fakes, unless they say otherwise.
func TestUnnumbered(t *testing.T) {
	for i, tt := range []struct {
		client source.ClientGo[*corev1.PodList]
		want   bool
	}{
		{fake.NewClientset().CoreV1().Pods("a"), false}, // the clientset would know
		{says{nil, false}, false}, {says{nil, true}, true},
		{unnumbered{says{nil, true}, false}, false}, {unnumbered{says{nil, false}, true}, true},
	} {
		from, err := source.FromClient[*corev1.Pod](tt.client, source.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		if got := from.(interface{ Unnumbered() bool }).Unnumbered(); got != tt.want {
			t.Errorf("client %d is unnumbered: %t, want %t", i, got, tt.want)
		}
	}
}

// TestInitialEventsThroughClient: a client is asked to stream the initial objects if it says that it can.
func TestInitialEventsThroughClient(t *testing.T) {
	bubble(t, tidingstest.ServerOptions{}, func(t *testing.T, s *tidingstest.Server) {
		s.Create(pod("a", "x"))
		version := s.Create(pod("a", "y"))
		client := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().Pods("a")
		from, err := source.FromClient[*corev1.Pod](says{client, false}, source.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{SendInitialEvents: true, ResourceVersion: version})
		events := read(t, stream, 3)
		if got := []source.EventType{events[0].Type, events[1].Type, events[2].Type}; !slices.Equal(got, []source.EventType{
			source.Added, source.Added, source.Bookmark,
		}) || !events[2].InitialEventsEnd || events[2].ResourceVersion == "" {
			t.Errorf("got %+v", events)
		}
		from, err = source.FromClient[*corev1.Pod](says{client, true}, source.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := from.Watch(t.Context(), source.WatchOptions[*corev1.Pod]{SendInitialEvents: true}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a client that cannot: %v", err)
		}
	})
}

// unwatchable is a client that refuses to watch.
type unwatchable struct {
	source.ClientGo[*corev1.PodList]
	err error
}

func (r unwatchable) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, r.err
}

// TestClientCannotParseInitialEvents: an error of the client's own means that it cannot stream; one
// from the server or the network does not.
func TestClientCannotParseInitialEvents(t *testing.T) {
	for _, c := range []struct {
		err         error
		unsupported bool
	}{
		{errors.New("strconv.Atoi: parsing \"\": invalid syntax"), true},
		{apierrors.NewTooManyRequests("later", 1), false},
		{&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError}}, false},
		{syscall.ECONNREFUSED, false},
		{context.Canceled, false},
	} {
		from, err := source.FromClient[*corev1.Pod](says{unwatchable{err: c.err}, false}, source.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = from.Watch(t.Context(), source.WatchOptions[*corev1.Pod]{SendInitialEvents: true})
		if errors.Is(err, errors.ErrUnsupported) != c.unsupported || !errors.Is(err, c.err) {
			t.Errorf("%v: got %v", c.err, err)
		}
		if _, err = from.Watch(t.Context(), source.WatchOptions[*corev1.Pod]{}); err != c.err {
			t.Errorf("%v from a watch: got %v", c.err, err)
		}
	}
}

// empty is a client whose watches end at once.
type empty struct {
	source.ClientGo[*corev1.PodList]
}

func (empty) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewEmptyWatch(), nil
}

// TestClientSendsNoInitialEvents: a client whose watch ends before anything has come cannot stream.
func TestClientSendsNoInitialEvents(t *testing.T) {
	from, err := source.FromClient[*corev1.Pod](says{empty{}, false}, source.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	for _, initial := range []bool{true, false} {
		stream := mustWatch(t, from, source.WatchOptions[*corev1.Pod]{SendInitialEvents: initial})
		if _, err := stream.Next(nil); errors.Is(err, errors.ErrUnsupported) != initial || errors.Is(err, io.EOF) == initial {
			t.Errorf("initial events: %t: got %v", initial, err)
		}
	}
}
