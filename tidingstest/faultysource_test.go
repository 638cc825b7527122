package tidingstest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest"
)

type (
	configMap   = *corev1.ConfigMap
	sourceFault = tidingstest.SourceFault
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func newConfigMap(name, value string) configMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Data: map[string]string{"value": value}}
}

// faultySource returns a source of the server's ConfigMaps.
func faultySource(t *testing.T, server *tidingstest.Server) *tidingstest.FaultySource[configMap] {
	t.Helper()
	client, err := source.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	src, err := source.NewHTTP[configMap](client, source.Scope{Resource: configMaps})
	if err != nil {
		t.Fatal(err)
	}
	return tidingstest.NewFaultySource(src)
}

// inBubble runs a test with a server and a source for it.
func inBubble(t *testing.T, test func(*testing.T, *tidingstest.Server, *tidingstest.FaultySource[configMap])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		test(t, server, faultySource(t, server))
	})
}

// names lists, and returns the names of the objects and the version of the list.
func names(ctx context.Context, src source.ListerWatcher[configMap], opts source.ListOptions[configMap]) (names []string, version string, err error) {
	result, err := src.List(ctx, opts, func(o configMap) error {
		names = append(names, o.Name)
		return nil
	})
	return names, result.ResourceVersion, err
}

// watchFor reads a watch for some time, and returns its events, with "|" between batches, and how it ended.
func watchFor(t *testing.T, src source.ListerWatcher[configMap], opts source.WatchOptions[configMap], d time.Duration) (events []string, err error) {
	t.Helper()
	stream, err := src.Watch(t.Context(), opts)
	if err != nil {
		return nil, err
	}
	time.AfterFunc(d, func() { stream.Close() })
	defer stream.Close()
	for {
		batch, err := stream.Next(nil)
		for _, e := range batch {
			name := "end"
			if e.Type != source.Bookmark {
				name = e.Object.Name
			} else if !e.InitialEventsEnd {
				name = "bookmark"
			}
			events = append(events, name)
		}
		if err != nil {
			return events, err
		}
		if len(batch) == 0 {
			t.Error("Next returned nothing")
		}
	}
}

func TestFaultySourceWithoutFaults(t *testing.T) {
	inBubble(t, func(t *testing.T, server *tidingstest.Server, src *tidingstest.FaultySource[configMap]) {
		server.Create(newConfigMap("x", "1"))
		version := server.Create(newConfigMap("y", "1"))
		got, at, err := names(t.Context(), src, source.ListOptions[configMap]{Limit: 1})
		if !slices.Equal(got, []string{"x"}) || at != version || err != nil {
			t.Errorf("listed %v at %v, %v", got, at, err)
		}
		events, err := watchFor(t, src, source.WatchOptions[configMap]{SendInitialEvents: true}, 90*time.Second)
		if want := []string{"x", "y", "end", "bookmark"}; !slices.Equal(events, want) || !errors.Is(err, source.ErrClosed) {
			t.Errorf("watched %v, %v; want %v and ErrClosed", events, err, want)
		}
		if counts := src.FaultCounts(); len(counts) > 0 {
			t.Errorf("counted %v", counts)
		}
	})
}

// describing is a source that says more of itself than it has to.
type describing struct {
	source.ListerWatcher[object.Object]
	strayWrite func(field string)
}

func (d *describing) ObjectType() reflect.Type           { return reflect.TypeFor[configMap]() }
func (d *describing) SharedBytes() int64                 { return 7 }
func (d *describing) OnStrayWrite(fn func(field string)) { d.strayWrite = fn }

// TestFaultySourceDescribesItself as the source does that it wraps, or else the engine would fold
// no objects, count other memory, and miss writes to cached objects.
func TestFaultySourceDescribesItself(t *testing.T) {
	wrapped := &describing{}
	src := tidingstest.NewFaultySource[object.Object](wrapped)
	if got := intake.ObjectType[object.Object](src); got != reflect.TypeFor[configMap]() {
		t.Errorf("its objects are of type %v", got)
	}
	parts := intake.SharedParts{Of: src}
	if parts.SharedBytes() != 7 {
		t.Error("it does not count the memory of shared parts")
	}
	found := ""
	parts.OnStrayWrite(func(field string) { found = field })
	if wrapped.strayWrite == nil {
		t.Fatal("it does not pass on who wants to know of writes to shared parts")
	}
	if wrapped.strayWrite("metadata.labels"); found != "metadata.labels" {
		t.Errorf("it reported %q", found)
	}
	plain := tidingstest.NewFaultySource[object.Object](struct {
		source.ListerWatcher[object.Object]
	}{})
	parts = intake.SharedParts{Of: plain}
	parts.OnStrayWrite(nil)
	if parts.SharedBytes() != 0 || plain.ObjectType() != reflect.TypeFor[object.Object]() {
		t.Errorf("a source that says nothing has %d shared bytes of %v", parts.SharedBytes(), plain.ObjectType())
	}
}

// errEnough is the cause with which the context of a test ends.
var errEnough = errors.New("enough")

func TestFaultySourceLists(t *testing.T) {
	tests := []struct {
		name  string
		fault sourceFault
		want  string
		err   error
		kinds string
		takes time.Duration
	}{
		{"refused", sourceFault{Err: syscall.ECONNREFUSED}, "", syscall.ECONNREFUSED, "refused", 0},
		{"late", sourceFault{Delay: time.Second}, "x y z", nil, "delayed answer", time.Second},
		{"too late", sourceFault{Delay: time.Hour}, "", errEnough, "delayed answer", time.Minute},
		{"dripping", sourceFault{Drip: time.Second}, "x y z", nil, "slow drip", 3 * time.Second},
		{"dripping for too long", sourceFault{Drip: 40 * time.Second}, "x", errEnough, "slow drip", time.Minute},
		{"cut at once", sourceFault{End: tidingstest.Cut}, "", io.ErrUnexpectedEOF, "cut", 0},
		{"cut", sourceFault{After: 2, End: tidingstest.Cut}, "x y", io.ErrUnexpectedEOF, "cut", 0},
		{"cut behind the last", sourceFault{After: 3, End: tidingstest.Cut}, "x y z", io.ErrUnexpectedEOF, "cut", 0},
		{"cut behind more than there is", sourceFault{After: 9, End: tidingstest.Cut}, "x y z", io.ErrUnexpectedEOF, "cut", 0},
		{"closed", sourceFault{After: 2, End: tidingstest.Close}, "x y", io.ErrUnexpectedEOF, "closed", 0},
		{"truncated", sourceFault{After: 1, End: tidingstest.Truncate}, "x", io.ErrUnexpectedEOF, "cut", 0},
		{"silent", sourceFault{After: 1, End: tidingstest.Stall}, "x", errEnough, "silence", time.Minute},
		{"ended", sourceFault{After: 1, EndErr: io.ErrNoProgress}, "x", io.ErrNoProgress, "ended with an error", 0},
		{"nothing", sourceFault{After: 1}, "x y z", nil, "", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *tidingstest.Server, src *tidingstest.FaultySource[configMap]) {
				for _, name := range []string{"x", "y", "z"} {
					server.Create(newConfigMap(name, ""))
				}
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errEnough)
				defer cancel()
				src.Inject(tidingstest.List, test.fault)
				start := time.Now()
				got, version, err := names(ctx, src, source.ListOptions[configMap]{})
				if strings.Join(got, " ") != test.want || !errors.Is(err, test.err) || time.Since(start) != test.takes {
					t.Errorf("got %v, %v after %v; want %v, %v after %v", got, err, time.Since(start), test.want, test.err, test.takes)
				}
				if (version != "") != (err == nil) {
					t.Errorf("the version is %q beside %v", version, err)
				}
				counts := src.FaultCounts()
				if n := counts[test.kinds]; len(counts) != min(1, len(test.kinds)) || test.kinds != "" && n != 1 {
					t.Errorf("counted %v, want one %q", counts, test.kinds)
				}
				if got, _, err := names(t.Context(), src, source.ListOptions[configMap]{}); len(got) != 3 || err != nil {
					t.Errorf("the next list brought %v, %v", got, err)
				}
			})
		})
	}
}

func TestFaultySourceWatches(t *testing.T) {
	expired := apierrors.NewResourceExpired("gone")
	tests := []struct {
		name  string
		fault sourceFault
		want  string
		err   error
	}{
		{"well", sourceFault{}, "a x y z end bookmark p q r bookmark", source.ErrClosed},
		{"refused", sourceFault{Err: expired}, "", expired},
		{"cut at once", sourceFault{End: tidingstest.Cut}, "", io.ErrUnexpectedEOF},
		{"cut before a change", sourceFault{After: 6, End: tidingstest.Cut}, "a x y z end bookmark", io.ErrUnexpectedEOF},
		{"cut after a change", sourceFault{After: 7, End: tidingstest.Cut}, "a x y z end bookmark p", io.ErrUnexpectedEOF},
		{"cut among the initial events", sourceFault{After: 2, End: tidingstest.CutInside}, "a x", io.ErrUnexpectedEOF},
		{"closed", sourceFault{After: 8, End: tidingstest.Close}, "a x y z end bookmark p q", io.EOF},
		{"silent", sourceFault{After: 7, End: tidingstest.Stall}, "a x y z end bookmark p", source.ErrClosed},
		{"ended", sourceFault{After: 5, EndErr: expired}, "a x y z end", expired},
		{"no end of the initial events", sourceFault{NoInitialEventsEnd: true}, "a x y z bookmark p q r bookmark", source.ErrClosed},
		{"no bookmarks", sourceFault{NoBookmarks: true}, "a x y z p q r", source.ErrClosed},
		{"twice", sourceFault{Duplicate: true, NoBookmarks: true}, "a a x x y y z z p p q q r r", source.ErrClosed},
		{"out of order", sourceFault{Reorder: true}, "x a z y end bookmark q p r bookmark", source.ErrClosed},
		{"held back until the end", sourceFault{Reorder: true, NoBookmarks: true}, "x a z y q p r", source.ErrClosed},
		{"dripping", sourceFault{Drip: 30 * time.Second}, "a x y z end", source.ErrClosed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, server *tidingstest.Server, src *tidingstest.FaultySource[configMap]) {
				for _, name := range []string{"a", "x", "y", "z"} {
					server.Create(newConfigMap(name, ""))
				}
				for i, name := range []string{"p", "q", "r"} {
					time.AfterFunc(90*time.Second+time.Duration(i)*time.Second, func() { server.Create(newConfigMap(name, "")) })
				}
				src.Inject(tidingstest.WatchList, test.fault)
				events, err := watchFor(t, src, source.WatchOptions[configMap]{SendInitialEvents: true}, 160*time.Second)
				if got := strings.Join(events, " "); got != test.want || !errors.Is(err, test.err) {
					t.Errorf("got %v, %v; want %v, %v", got, err, test.want, test.err)
				}
			})
		})
	}
}

// TestFaultySourceLags lists and watches the state of some changes ago.
func TestFaultySourceLags(t *testing.T) {
	inBubble(t, func(t *testing.T, server *tidingstest.Server, src *tidingstest.FaultySource[configMap]) {
		src.InjectAlways(tidingstest.Any, sourceFault{Lag: 1})
		server.Create(newConfigMap("x", "1"))
		first := server.Create(newConfigMap("y", "1"))
		if got, version, err := names(t.Context(), src, source.ListOptions[configMap]{}); len(got) != 2 || version != first || err != nil {
			t.Errorf("the first list is %v at %v, %v", got, version, err)
		}
		src.ClearFaults()
		time.AfterFunc(time.Second, func() {
			server.Delete(newConfigMap("x", ""))
			server.Create(newConfigMap("z", "1"))
		})
		if _, err := watchFor(t, src, source.WatchOptions[configMap]{ResourceVersion: first}, time.Minute); !errors.Is(err, source.ErrClosed) {
			t.Error(err)
		}
		last := server.ResourceVersion()

		lists := []struct {
			lag  int
			want string
		}{{0, "y z"}, {1, "y"}, {2, "x y"}, {3, "x y"}, {4000, "x y"}}
		for _, test := range lists {
			src.Inject(tidingstest.List, sourceFault{Lag: test.lag})
			got, _, err := names(t.Context(), src, source.ListOptions[configMap]{ResourceVersion: "0"})
			if strings.Join(got, " ") != test.want || err != nil {
				t.Errorf("with a lag of %d: %v, %v; want %v", test.lag, got, err, test.want)
			}
		}

		src.Inject(tidingstest.Any, sourceFault{Lag: 2})
		_, _, err := names(t.Context(), src, source.ListOptions[configMap]{ResourceVersion: last})
		if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			t.Errorf("a list from a version that the replica does not have: %v", err)
		}

		src.Inject(tidingstest.WatchList, sourceFault{Lag: 2})
		events, err := watchFor(t, src, source.WatchOptions[configMap]{SendInitialEvents: true}, 50*time.Second)
		if want := []string{"x", "y", "end", "x", "z"}; !slices.Equal(events, want) || !errors.Is(err, source.ErrClosed) {
			t.Errorf("watched %v, %v; want %v", events, err, want)
		}
		src.Inject(tidingstest.WatchList, sourceFault{Lag: 2})
		_, err = src.Watch(t.Context(), source.WatchOptions[configMap]{SendInitialEvents: true, ResourceVersion: last})
		if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
			t.Errorf("initial events from a version that the replica does not have: %v", err)
		}
		if n := src.FaultCounts()["stale replica"]; n != 7 {
			t.Errorf("%d stale replicas were counted, want 7: nothing is behind the first list", n)
		}
	})
}

// TestFaultySourceRemembers lists the past: it does not change when callers modify what they get,
// is assembled from pages and initial events, goes back only so far, and not past a restored
// backup.
func TestFaultySourceRemembers(t *testing.T) {
	inBubble(t, func(t *testing.T, server *tidingstest.Server, src *tidingstest.FaultySource[configMap]) {
		backup := server.Snapshot()
		for i := range 5 {
			server.Create(newConfigMap(fmt.Sprint("x", i), "kept"))
		}
		opts := source.ListOptions[configMap]{Limit: 2, NoSharing: true}
		for {
			result, err := src.List(t.Context(), opts, func(o configMap) error {
				o.Data["value"] = "written"
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if opts.Continue = result.Continue; opts.Continue == "" {
				break
			}
		}
		past := func() (got []string) {
			t.Helper()
			src.Inject(tidingstest.List, sourceFault{Lag: 1_000_000})
			_, err := src.List(t.Context(), source.ListOptions[configMap]{NoSharing: true}, func(o configMap) error {
				got = append(got, o.Name+"="+o.Data["value"])
				o.Data["value"] = "written"
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			return got
		}
		want := []string{"x0=kept", "x1=kept", "x2=kept", "x3=kept", "x4=kept"}
		for range 2 {
			if got := past(); !slices.Equal(got, want) {
				t.Errorf("the past is %v, want %v", got, want)
			}
		}

		server.Delete(newConfigMap("x0", ""))
		time.AfterFunc(time.Second, func() {
			for i := range 3000 {
				server.Update(newConfigMap("x1", fmt.Sprint(i)))
			}
		})
		if _, err := watchFor(t, src, source.WatchOptions[configMap]{SendInitialEvents: true}, 10*time.Second); !errors.Is(err, source.ErrClosed) {
			t.Error(err)
		}
		got := past()
		value, _ := strconv.Atoi(strings.TrimPrefix(got[0], "x1="))
		if value < 500 || value > 2000 || !slices.Equal(got[1:], want[2:]) {
			t.Errorf("the past is %v, want x1 at least 1000 changes ago and not at the beginning", got)
		}

		server.Restore(backup)
		server.Create(newConfigMap("new", "1"))
		if got, _, err := names(t.Context(), src, source.ListOptions[configMap]{}); !slices.Equal(got, []string{"new"}) || err != nil {
			t.Errorf("the restored server has %v, %v", got, err)
		}
		if got := past(); !slices.Equal(got, []string{"new=1"}) {
			t.Errorf("the past of the restored server is %v", got)
		}
	})
}

// TestFaultySourceRemembersWhatWasWatched although the state of before is listed meanwhile: as an
// audit lists it, and by a list that began before.
func TestFaultySourceRemembersWhatWasWatched(t *testing.T) {
	inBubble(t, func(t *testing.T, server *tidingstest.Server, src *tidingstest.FaultySource[configMap]) {
		server.Create(newConfigMap("x", "1"))
		first := server.Create(newConfigMap("y", "1"))
		if _, _, err := names(t.Context(), src, source.ListOptions[configMap]{}); err != nil {
			t.Fatal(err)
		}
		page, err := src.List(t.Context(), source.ListOptions[configMap]{Limit: 1}, func(configMap) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		watched := func(change func()) {
			t.Helper()
			from := server.ResourceVersion()
			time.AfterFunc(time.Second, change)
			if _, err := watchFor(t, src, source.WatchOptions[configMap]{ResourceVersion: from}, 2*time.Second); !errors.Is(err, source.ErrClosed) {
				t.Error(err)
			}
		}
		watched(func() {
			server.Delete(newConfigMap("x", ""))
			server.Create(newConfigMap("z", "1"))
		})
		for what, opts := range map[string]source.ListOptions[configMap]{
			"x y": {ResourceVersion: first, ResourceVersionMatch: string(metav1.ResourceVersionMatchExact)}, "y": {Limit: 1, Continue: page.Continue},
		} {
			if got, version, err := names(t.Context(), src, opts); strings.Join(got, " ") != what || version != first || err != nil {
				t.Errorf("listed %v at %v, %v; want %s", got, version, err, what)
			}
		}
		watched(func() {
			server.Create(newConfigMap("v", "1"))
			server.Create(newConfigMap("w", "1"))
		})
		for lag, want := range map[int]string{1: "v y z", 2: "y z", 3: "y", 4: "x y"} {
			src.Inject(tidingstest.List, sourceFault{Lag: lag})
			if got, _, err := names(t.Context(), src, source.ListOptions[configMap]{}); strings.Join(got, " ") != want || err != nil {
				t.Errorf("with a lag of %d: %v, %v; want %v", lag, got, err, want)
			}
		}
	})
}

// TestFaultySourceDuplicatesShareNothing modifies the objects of duplicate events, where that is allowed.
func TestFaultySourceDuplicatesShareNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, server *tidingstest.Server, src *tidingstest.FaultySource[configMap]) {
		server.Create(newConfigMap("x", "1"))
		src.InjectAlways(tidingstest.WatchList, sourceFault{Duplicate: true, After: 1, End: tidingstest.Close})
		for _, alone := range []bool{true, false} {
			stream, err := src.Watch(t.Context(), source.WatchOptions[configMap]{SendInitialEvents: true, NoSharing: alone})
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			events, err := stream.Next(nil)
			if err != io.EOF || len(events) != 2 || (events[0].Object != events[1].Object) != alone {
				t.Errorf("got %v, %v; want two events, with one object or, if NoSharing is %v, two", events, err, alone)
			}
		}
	})
}

func TestFaultySourceForAWhile(t *testing.T) {
	inBubble(t, func(t *testing.T, server *tidingstest.Server, src *tidingstest.FaultySource[configMap]) {
		list := func() error {
			_, _, err := names(t.Context(), src, source.ListOptions[configMap]{})
			return err
		}
		src.InjectFor(time.Minute, tidingstest.Any, sourceFault{Err: apierrors.NewForbidden(configMaps.GroupResource(), "", errEnough)})
		src.Inject(tidingstest.List, sourceFault{}, sourceFault{Err: syscall.ECONNRESET})
		if err := list(); err != nil {
			t.Errorf("the first list goes well, and is %v", err)
		}
		if err := list(); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		if err := list(); !apierrors.IsForbidden(err) {
			t.Error(err)
		}
		if _, err := src.Watch(t.Context(), source.WatchOptions[configMap]{}); !apierrors.IsForbidden(err) {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if err := list(); err != nil {
			t.Errorf("after a minute: %v", err)
		}
		src.InjectAlways(tidingstest.List, sourceFault{Err: io.ErrClosedPipe})
		time.Sleep(time.Hour)
		if err := list(); !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
		src.ClearFaults()
		if err := list(); err != nil {
			t.Errorf("without faults: %v", err)
		}
	})
}

func TestSourceChaosIsRepeatable(t *testing.T) {
	count := func(c tidingstest.Chaos) (kinds map[string]int, all string) {
		kinds = map[string]int{}
		for _, kind := range []tidingstest.RequestKind{tidingstest.List, tidingstest.Watch, tidingstest.WatchList} {
			for n := range 1000 {
				fault, ok := c.SourceFault(kind, n)
				all += fmt.Sprintf("%v %+v %v\n", ok, fault, fault.Kinds())
				for _, kind := range fault.Kinds() {
					kinds[kind]++
				}
			}
		}
		return kinds, all
	}
	chaos := tidingstest.Chaos{Seed: 1, Share: 0.2, Hostile: true}
	kinds, first := count(chaos)
	_, again := count(chaos)
	_, other := count(tidingstest.Chaos{Seed: 2, Share: 0.2, Hostile: true})
	if first != again || first == other {
		t.Error("the seed does not decide")
	}
	for _, kind := range []string{
		"delayed answer", "refused", "stale replica", "slow drip", "ended with an error", "closed", "cut", "silence", "no end of the initial events",
		"no bookmarks", "duplicated events", "reordered events",
	} {
		if kinds[kind] < 5 {
			t.Errorf("%q came %d times in 3000 requests", kind, kinds[kind])
		}
	}
	chaos.Hostile = false
	if kinds, _ := count(chaos); kinds["silence"]+kinds["duplicated events"]+kinds["reordered events"] > 0 {
		t.Errorf("faults that no correct server has came to pass: %v", kinds)
	}
}
