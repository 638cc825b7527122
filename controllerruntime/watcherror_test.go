package tidingsruntime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/tidings/tidings/tidingstest"
)

// watchEnding is a way in which lists or watches end.
type watchEnding struct {
	name   string
	listed bool                        // only with a server that offers no WatchList: client-go never ends with one that does
	begin  func(s *tidingstest.Server) // what happens from the beginning
	later  func(s *tidingstest.Server) // what happens to a synced informer
	want   []string                    // what watch error handlers get, each kind once, in order
}

var watchEndings = func() []watchEnding {
	pods := corev1.Resource("pods")
	answer := func(kind tidingstest.RequestKind, err apierrors.APIStatus) func(*tidingstest.Server) {
		return func(s *tidingstest.Server) { s.InjectAlways(kind, tidingstest.Fault{Resource: "pods", Err: err}) }
	}
	forbidden, missing := apierrors.NewForbidden(pods, "", errors.New("no")), apierrors.NewNotFound(pods, "")
	unsupported, internal := apierrors.NewMethodNotSupported(pods, "watch"), apierrors.NewInternalError(errors.New("broken"))
	unavailable, busy := apierrors.NewServiceUnavailable("starting"), apierrors.NewTooManyRequests("busy", 1)
	unauthorized, expired := apierrors.NewUnauthorized("who?"), apierrors.NewResourceExpired("old")
	timeout := apierrors.NewTimeoutError("slow", 1)
	watches := func(f tidingstest.Fault) func(*tidingstest.Server) {
		f.Resource = "pods"
		return func(s *tidingstest.Server) { s.InjectAlways(tidingstest.Watch, f) }
	}
	says := func(status *apierrors.StatusError) func(*tidingstest.Server) {
		return func(s *tidingstest.Server) {
			s.Inject(tidingstest.Watch, tidingstest.Fault{Resource: "pods", Events: []tidingstest.RawEvent{tidingstest.ErrorEvent(status)}})
			s.BreakConnections()
		}
	}
	return []watchEnding{
		{name: "nothing"},
		{name: "everything forbidden", begin: answer(tidingstest.Any, forbidden), want: []string{"list Forbidden"}},
		{name: "everything missing", begin: answer(tidingstest.Any, missing), want: []string{"list NotFound"}},
		{name: "everything unauthorized", begin: answer(tidingstest.Any, unauthorized), want: []string{"list Unauthorized"}},
		{name: "everything broken", begin: answer(tidingstest.Any, internal), want: []string{"list InternalError"}},
		{name: "everything unavailable", begin: answer(tidingstest.Any, unavailable), want: []string{"list ServiceUnavailable"}},
		{name: "everything slow", begin: answer(tidingstest.Any, timeout), want: []string{"list Timeout"}},
		{name: "lists busy", listed: true, begin: answer(tidingstest.List, busy), want: []string{"list TooManyRequests"}},
		{name: "connections broken", begin: func(s *tidingstest.Server) {
			s.InjectAlways(tidingstest.Any, tidingstest.Fault{Resource: "pods", HangUp: true})
		}},
		{name: "lists without an answer", begin: func(s *tidingstest.Server) {
			s.InjectAlways(tidingstest.WatchList, tidingstest.Fault{Resource: "pods", Err: forbidden})
			s.InjectAlways(tidingstest.List, tidingstest.Fault{Resource: "pods", HangUp: true})
		}, want: []string{"list network"}},
		{name: "nothing listens", begin: (*tidingstest.Server).Stop},
		{name: "watch lists forbidden", begin: answer(tidingstest.WatchList, forbidden)},
		{name: "watch lists broken", begin: answer(tidingstest.WatchList, internal)},
		{name: "watch lists busy for a while", begin: func(s *tidingstest.Server) {
			s.InjectFor(time.Minute, tidingstest.WatchList, tidingstest.Fault{Resource: "pods", Err: busy})
		}},
		{name: "a watch list cut once", begin: func(s *tidingstest.Server) {
			s.Inject(tidingstest.WatchList, tidingstest.Fault{Resource: "pods", NoInitialEventsEnd: true, After: 1, End: tidingstest.Cut})
		}},
		{name: "watches forbidden", listed: true, begin: answer(tidingstest.Watch, forbidden), want: []string{"watch Forbidden"}},
		{name: "watches missing", listed: true, begin: answer(tidingstest.Watch, missing), want: []string{"watch NotFound"}},
		{name: "watches unsupported", listed: true, begin: answer(tidingstest.Watch, unsupported), want: []string{"watch MethodNotAllowed"}},
		{name: "watches broken", listed: true, begin: answer(tidingstest.Watch, internal), want: []string{"watch InternalError"}},
		{name: "watches expired", listed: true, begin: answer(tidingstest.Watch, expired), want: []string{"watch Expired"}},
		{name: "watches busy", listed: true, begin: answer(tidingstest.Watch, busy)},
		{name: "watches without an answer", listed: true, begin: watches(tidingstest.Fault{HangUp: true})},
		{name: "watches closed at once", listed: true, begin: watches(tidingstest.Fault{End: tidingstest.Close})},
		{name: "watches cut at once", listed: true, begin: watches(tidingstest.Fault{End: tidingstest.Cut})},
		{name: "connections cut", later: (*tidingstest.Server).BreakConnections},
		{name: "a watch that says expired", later: says(expired)},
		{name: "a watch that says broken", later: says(internal)},
		{name: "a watch that says busy", later: says(busy)},
		{name: "an hour without permission", later: func(s *tidingstest.Server) {
			s.InjectFor(time.Hour, tidingstest.Any, tidingstest.Fault{Resource: "pods", Err: forbidden})
			s.BreakConnections()
		}, want: []string{"watch Forbidden", "list Forbidden"}},
	}
}()

// TestWatchEndings compares when watch error handlers are called, and with what, in every way in which a list or a
// watch ends.
func TestWatchEndings(t *testing.T) {
	for _, ending := range watchEndings {
		for _, noWatchList := range []bool{true, false} {
			if ending.listed && !noWatchList {
				continue
			}
			for _, name := range []string{"controller-runtime", "tidings"} {
				t.Run(fmt.Sprintf("%s/no watch list %t/%s", ending.name, noWatchList, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, tidingstest.ServerOptions{NoWatchList: noWatchList}, name)
						want(w, "errors", w.watchErrors(ending), ending.want)
					})
				})
			}
		}
	}
}

// watchErrors returns what the watch error handler of pods is called with, each kind once.
func (w *world) watchErrors(ending watchEnding) []string {
	w.Create(pod("shop", "a"))
	var mu sync.Mutex
	var heard []string
	c := w.make(cache.Options{DefaultWatchErrorHandler: func(ctx context.Context, _ *toolscache.Reflector, err error) {
		if ctx.Err() != nil {
			return // client-go's reports that it was stopped while it waited
		}
		mu.Lock()
		defer mu.Unlock()
		if kind := watchErrorKind(err); !slices.Contains(heard, kind) {
			heard = append(heard, kind)
		}
	}})
	inf, err := c.GetInformer(w.ctx(), &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		w.Fatal(err)
	}
	if ending.begin != nil {
		ending.begin(w.Server)
	}
	ctx, cancel := context.WithCancel(w.ctx())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	time.Sleep(5 * time.Minute)
	if ending.later != nil {
		if !inf.HasSynced() {
			w.Error("the informer has not synced")
		}
		ending.later(w.Server)
	}
	time.Sleep(30 * time.Minute)
	cancel()
	if err := <-ended; err != nil {
		w.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return heard
}

// watchErrorKind describes the kind of an error in two words: what failed, and why.
func watchErrorKind(err error) string {
	what := "watch"
	if strings.HasPrefix(err.Error(), "failed to list ") {
		what = "list"
	}
	switch reason := apierrors.ReasonForError(err); {
	case reason != metav1.StatusReasonUnknown:
		return what + " " + string(reason)
	case utilnet.IsConnectionRefused(err):
		return what + " refused"
	default:
		return what + " network"
	}
}
