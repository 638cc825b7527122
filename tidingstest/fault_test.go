package tidingstest

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tidings/tidings/internal/protocol"
	"github.com/tidings/tidings/object"
)

func keyOf(o metav1.Object) object.Key { return object.KeyOf(o) }

// watchNames reads a watch that lasts five seconds, during which three objects are created, and
// returns the names of its events in order, and a text that says how it ended.
func watchNames(t *testing.T, fault Fault) (names []string, body string, err error) {
	s := NewServer(t, ServerOptions{BookmarkInterval: 4 * time.Second})
	version := s.Create(configMap("a", "zero"))
	s.Inject(Watch, fault)
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() {
		for _, name := range []string{"one", "two", "three"} {
			time.Sleep(time.Second)
			s.Create(configMap("a", name))
		}
	})
	_, body, err = get(t, s, "/api/v1/configmaps?watch=1&timeoutSeconds=5&allowWatchBookmarks=1&resourceVersion="+version)
	for line := range strings.Lines(body) {
		if _, after, ok := strings.Cut(line, `"name":"`); ok {
			name, _, _ := strings.Cut(after, `"`)
			names = append(names, name)
		} else if strings.Contains(line, "BOOKMARK") {
			names = append(names, "bookmark")
		}
	}
	return names, body, err
}

func TestWatchFaults(t *testing.T) {
	tests := []struct {
		name  string
		fault Fault
		want  []string
		cut   bool // the connection breaks
		half  bool // the last event is incomplete
	}{
		{"none", Fault{}, []string{"one", "two", "three", "bookmark", "bookmark"}, false, false},
		{"no bookmarks", Fault{NoBookmarks: true}, []string{"one", "two", "three"}, false, false},
		{"duplicate", Fault{Duplicate: true, After: 3, End: Close}, []string{"one", "one", "two", "two", "three", "three"}, false, false},
		{"reorder", Fault{Reorder: true}, []string{"two", "one", "three", "bookmark", "bookmark"}, false, false},
		{"cut", Fault{After: 2, End: Cut}, []string{"one", "two"}, true, false},
		{"close", Fault{After: 2, End: Close}, []string{"one", "two"}, false, false},
		{"cut inside", Fault{After: 1, End: CutInside}, []string{"one"}, true, true},
		{"truncate", Fault{After: 1, End: Truncate}, []string{"one"}, false, true},
		{"drip", Fault{Drip: time.Millisecond}, []string{"one", "two", "three", "bookmark", "bookmark"}, false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, body, err := watchNames(t, test.fault)
				if test.half {
					if strings.HasSuffix(body, "\n") {
						t.Errorf("the last event is whole: %q", body)
					}
					got = got[:min(len(got), len(test.want))]
				}
				if !slices.Equal(got, test.want) || (err != nil) != test.cut {
					t.Errorf("got %v, %v; want %v", got, err, test.want)
				}
			})
		})
	}
}

func TestGiantFrames(t *testing.T) {
	const size = 300_000
	s := NewServer(t, ServerOptions{})
	for _, accept := range []string{protocol.JSON, protocol.Protobuf} {
		s.Inject(Watch, Fault{Events: []RawEvent{{Giant: size}}, End: Close})
		_, body, err := getAs(t, s, "/api/v1/pods?watch=1&resourceVersion=1", accept)
		if err != nil || len(body) < size || len(body) > size+8 {
			t.Errorf("%s: %d bytes, %v", accept, len(body), err)
		}
		if accept == protocol.Protobuf && binary.BigEndian.Uint32([]byte(body)) != size {
			t.Errorf("the frame says it has %d bytes", binary.BigEndian.Uint32([]byte(body)))
		}
	}
}

func TestInjectFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(t, ServerOptions{})
		s.InjectFor(time.Minute, Any, Fault{Err: apierrors.NewForbidden(pods.GroupResource(), "", fmt.Errorf("no"))})
		client := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().Pods("")
		if _, err := client.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("at first: %v", err)
		}
		time.Sleep(time.Minute)
		if _, err := client.List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}

func TestChaosIsRepeatable(t *testing.T) {
	count := func(c Chaos) (faults int, all string) {
		for _, kind := range []RequestKind{List, Watch, WatchList, Get, Create, Patch} {
			for n := range 200 {
				fault, ok := c.Fault(kind, pods, n)
				if ok {
					faults++
				}
				all += describeFault(ok, fault)
			}
		}
		return faults, all
	}
	faults, first := count(Chaos{Seed: 1, Share: 0.2, Hostile: true})
	_, again := count(Chaos{Seed: 1, Share: 0.2, Hostile: true})
	_, other := count(Chaos{Seed: 2, Share: 0.2, Hostile: true})
	if first != again || first == other {
		t.Error("the seed does not decide")
	}
	if faults < 150 || faults > 350 {
		t.Errorf("%d of 1200 requests have a fault, want about 240", faults)
	}
}

// TestChaosEnds reads and writes during chaos and incidents; afterwards the server responds normally.
func TestChaosEnds(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testChaosEnds(t, seed) })
		})
	}
}

func testChaosEnds(t *testing.T, seed uint64) {
	s := NewServer(t, ServerOptions{})
	s.InjectRandom(Any, Chaos{Seed: seed, Share: 0.5, Hostile: true})
	incidents := make(chan []string)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	go func() { incidents <- s.Disturb(ctx, Chaos{Seed: seed}) }()
	maps := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().ConfigMaps("a")
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprint("x", n%50)
		_, _ = maps.Create(ctx, configMap("a", name), metav1.CreateOptions{})
		_, _ = maps.List(ctx, metav1.ListOptions{Limit: 7})
		if w, err := maps.Watch(ctx, metav1.ListOptions{AllowWatchBookmarks: true}); err == nil {
			select {
			case <-w.ResultChan():
			case <-time.After(time.Second):
			}
			w.Stop()
		}
		_ = maps.Delete(ctx, name, metav1.DeleteOptions{})
		time.Sleep(100 * time.Millisecond)
	}
	if found := <-incidents; len(found) < 3 {
		t.Errorf("little happened: %v", found)
	}
	s.ClearFaults()
	list := must(maps.List(t.Context(), metav1.ListOptions{}))(t)
	if len(list.Items) != len(s.Versions(configMaps)) || list.ResourceVersion != s.ResourceVersion() {
		t.Errorf("%d objects at %s, want %d at %s", len(list.Items), list.ResourceVersion, len(s.Versions(configMaps)), s.ResourceVersion())
	}
}

// describeFault formats a fault without its pointers.
func describeFault(ok bool, f Fault) string {
	err, answer := "", ""
	if f.Err != nil {
		err, f.Err = f.Err.Status().Message, nil
	}
	if f.Answer != nil {
		answer, f.Answer = string(f.Answer.Body), nil
	}
	events := f.Events
	f.Events = nil
	return fmt.Sprintf("%v %+v %s %s %d\n", ok, f, err, answer, len(events))
}
