package reflector_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

var podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

// podSink holds the version of every pod.
type podSink struct{ held map[object.Key]string }

func (s *podSink) Replace(objects object.Collection[*corev1.Pod], _ string) {
	clear(s.held)
	for key, p := range objects.All() {
		s.held[key] = p.ResourceVersion
	}
}

func (s *podSink) Add(deltas []object.Delta[*corev1.Pod], _ string) {
	for _, d := range deltas {
		if d.Type == object.Deleted {
			delete(s.held, d.Key)
		} else {
			s.held[d.Key] = d.Object.ResourceVersion
		}
	}
}

// TestOverHTTP runs the machine against a real HTTP server that misbehaves, while pods are created,
// changed and deleted.
func TestOverHTTP(t *testing.T) {
	end := func(e tidingstest.Ending) tidingstest.Fault { return tidingstest.Fault{End: e} }
	status := func(err *apierrors.StatusError) tidingstest.Fault { return tidingstest.Fault{Err: err} }
	event := func(err *apierrors.StatusError) tidingstest.Fault {
		return tidingstest.Fault{Events: []tidingstest.RawEvent{tidingstest.ErrorEvent(err)}, End: tidingstest.Close}
	}
	type faults map[tidingstest.RequestKind][]tidingstest.Fault
	tests := []struct {
		name    string
		server  tidingstest.ServerOptions
		faults  faults
		disturb func(*tidingstest.Server)
		reasons []reflector.Reason
	}{
		{name: "nothing"},
		{name: "HTTP/2", server: tidingstest.ServerOptions{HTTP2: true}},
		{name: "no WatchList", server: tidingstest.ServerOptions{NoWatchList: true}},
		{name: "a WatchList that never ends", faults: faults{tidingstest.WatchList: slices.Repeat([]tidingstest.Fault{{NoInitialEventsEnd: true, After: 2, End: tidingstest.Close}}, 3)},
			reasons: []reflector.Reason{reflector.Closed, reflector.Closed, reflector.Closed}},
		{name: "a WatchList that hangs", faults: faults{tidingstest.WatchList: {end(tidingstest.Stall)}}},
		{name: "a list that breaks off", server: tidingstest.ServerOptions{NoWatchList: true},
			faults: faults{tidingstest.List: {{CutAfterBytes: 100}, {HangUp: true}}}, reasons: []reflector.Reason{reflector.Network}},
		{name: "an answer of somebody else", faults: faults{tidingstest.WatchList: {{Answer: &tidingstest.Answer{Code: http.StatusOK, ContentType: "text/html", Body: []byte("<html>")}}}},
			reasons: []reflector.Reason{reflector.WrongAddress}},
		{name: "forbidden for a while", faults: faults{tidingstest.Any: slices.Repeat([]tidingstest.Fault{status(apierrors.NewForbidden(podResource.GroupResource(), "", errors.New(`User "x" cannot watch resource "pods"`)))}, 2)},
			reasons: []reflector.Reason{reflector.Forbidden}},
		{name: "busy", faults: faults{tidingstest.WatchList: {status(apierrors.NewTooManyRequests("busy", 5))}}, reasons: []reflector.Reason{reflector.TooManyRequests}},
		{name: "an expired watch", faults: faults{tidingstest.Watch: {event(errExpired)}},
			disturb: (*tidingstest.Server).BreakConnections, reasons: []reflector.Reason{reflector.Network, reflector.Expired}},
		{name: "a watch that fails", faults: faults{tidingstest.Watch: slices.Repeat([]tidingstest.Fault{event(errInternal)}, 3)},
			disturb: (*tidingstest.Server).BreakConnections,
			reasons: []reflector.Reason{reflector.Network, reflector.Server, reflector.Server, reflector.Server}},
		{name: "a restart", disturb: (*tidingstest.Server).Restart},
		{name: "compacted while away", disturb: func(s *tidingstest.Server) { s.Stop(); s.Create(pod("late")); s.Compact(); s.Start() }},
		{name: "an outage", disturb: func(s *tidingstest.Server) { s.Stop(); time.Sleep(time.Minute); s.Start() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := tidingstest.NewServer(t, tt.server)
				for _, name := range []string{"a", "b", "c", "d", "e"} {
					server.Create(pod(name))
				}
				for kind, list := range tt.faults {
					server.Inject(kind, list...)
				}
				sink := &podSink{held: map[object.Key]string{}}
				r, errs := podReflector(t, server, sink)
				stop := start(t, r)
				time.Sleep(3 * time.Minute)
				if tt.disturb != nil {
					tt.disturb(server)
				}
				server.Create(pod("f"))
				server.Delete(pod("a"))
				server.Update(pod("b"))
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				if want := server.Versions(podResource); !maps.Equal(sink.held, want) {
					t.Errorf("sink holds %v, server %v", sink.held, want)
				}
				if n := server.Count(tidingstest.Any); n > 20 {
					t.Errorf("%d requests", n)
				}
				stop()
				checkReasons(t, *errs, tt.reasons)
			})
		})
	}
}

func podReflector(t *testing.T, server *tidingstest.Server, sink *podSink) (*reflector.Reflector[*corev1.Pod], *[]*reflector.Error) {
	t.Helper()
	client, err := source.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	pods, err := source.NewHTTP[*corev1.Pod](client, source.Scope{Resource: podResource})
	if err != nil {
		t.Fatal(err)
	}
	errs := new([]*reflector.Error)
	r, err := reflector.New(reflector.Options[*corev1.Pod]{Source: pods, Sink: sink, Resource: podResource, PageSize: 2,
		OnError: func(e *reflector.Error) { *errs = append(*errs, e) }})
	if err != nil {
		t.Fatal(err)
	}
	return r, errs
}

// start runs r until the returned function is called, which waits for it.
func start(t *testing.T, r *reflector.Reflector[*corev1.Pod]) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// checkReasons compares the reported reasons with the expected ones, if there are any.
func checkReasons(t *testing.T, errs []*reflector.Error, want []reflector.Reason) {
	t.Helper()
	var got []reflector.Reason
	for _, e := range errs {
		t.Logf("%v, in %v", e, e.Phase)
		got = append(got, e.Reason)
		if !strings.HasPrefix(e.Error(), "pods: "+string(e.Reason)+": ") {
			t.Errorf("text %q", e)
		}
	}
	if want != nil && !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// hanging is a server that never responds.
type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestClientTimeout: a server that has never responded within the client's timeout is probably not
// there, whichever request it was.
func TestClientTimeout(t *testing.T) {
	for _, paged := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			client, err := source.NewClient(&rest.Config{Host: "http://server.test", Transport: hanging{}, Timeout: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			src, err := source.NewHTTP[*corev1.Pod](client, source.Scope{Resource: podResource})
			if err != nil {
				t.Fatal(err)
			}
			r, err := reflector.New(reflector.Options[*corev1.Pod]{Source: src, Sink: &podSink{map[object.Key]string{}}, Resource: podResource, DisableWatchList: paged})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
			defer cancel()
			_ = r.Run(ctx)
			if e := r.Status().LastError; e == nil || e.Reason != reflector.Timeout || !e.Permanent() || !strings.Contains(e.Error(), "rest.Config.Timeout") {
				t.Errorf("paged %t: %v", paged, e)
			}
		})
	}
}

// embedding is a user's source, whose own List may do something else than the one that it has inherited.
type embedding struct{ *source.HTTP[*corev1.Pod] }

// TestHolderDecodes what comes over HTTP, but not what comes from a source that embeds that.
func TestHolderDecodes(t *testing.T) {
	client, err := source.NewClient(&rest.Config{Host: "http://server.test"})
	if err != nil {
		t.Fatal(err)
	}
	pods, err := source.NewHTTP[*corev1.Pod](client, source.Scope{Resource: podResource})
	if err != nil {
		t.Fatal(err)
	}
	for src, want := range map[source.ListerWatcher[*corev1.Pod]]bool{pods: true, embedding{pods}: false} {
		r, err := reflector.New(reflector.Options[*corev1.Pod]{Source: src, Sink: &podSink{}})
		if err != nil || r.HolderDecodes() != want {
			t.Errorf("%T: %t, %v", src, !want, err)
		}
	}
}
