package ondemand_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/internal/latewatch"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/ondemand"
	"github.com/tidings/tidings/tidingstest"
)

// TestConcurrentReads has readers and a writer at the same time, slow answers, and in half of the schedules late
// metadata, or all bodies held again and again. A read is never older than the metadata before it, and finds an object
// that existed as long as it took.
func TestConcurrentReads(t *testing.T) {
	var found, missed int
	schedules := 0
	testseed.Each(t, 40, func(t *testing.T, seed uint64) {
		if seed%2 == 0 {
			ondemand.HoldEagerly(t)
		}
		synctest.Test(t, func(t *testing.T) {
			w := newReadWorld(t, seed)
			w.run()
			schedules++
			found, missed = found+w.found, missed+w.missed
		})
	})
	if t.Logf("%d reads found an object, %d did not", found, missed); schedules > 1 && (found == 0 || missed == 0) {
		t.Error("the schedules did not do everything")
	}
}

// readWorld is a schedule of TestConcurrentReads.
type readWorld struct {
	*testing.T
	server *tidingstest.Server
	inf    *ondemand.Informer[*corev1.Secret]
	number func(int) int // for any goroutine

	mu sync.Mutex
	// gone has, for each name, when the last deletion began, and the last creation ended; zero if there was none.
	gone          map[string]time.Time
	back          map[string]time.Time
	found, missed int
}

var readNames = []string{"a", "b", "c"}

func newReadWorld(t *testing.T, seed uint64) *readWorld {
	random := rand.New(rand.NewPCG(seed, 0))
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
	w := &readWorld{T: t, server: server, gone: map[string]time.Time{}, back: map[string]time.Time{}}
	w.number = func(n int) int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return random.IntN(n)
	}
	for _, name := range readNames {
		w.server.Create(secret(name, "0"))
	}
	late := w.number(2) == 0
	w.inf = startWith[*corev1.Secret](t, w.server, func(config *rest.Config) {
		config.QPS = -1
		if late {
			config.Wrap(latewatch.Wrap(300 * time.Millisecond))
		}
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if !strings.Contains(r.URL.Path, "/secrets/") {
					return next.RoundTrip(r)
				}
				w.pause(200)
				defer w.pause(200)
				return next.RoundTrip(r)
			})
		})
	})
	return w
}

func (w *readWorld) pause(milliseconds int) {
	time.Sleep(time.Duration(w.number(milliseconds)) * time.Millisecond)
}

func (w *readWorld) run() {
	ctx, cancel := context.WithCancel(w.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				w.pause(100)
				w.get(ctx, readNames[w.number(len(readNames))])
				if w.number(5) == 0 {
					w.list(ctx)
				}
			}
		})
	}
	for i := range 100 {
		w.pause(150)
		w.write(readNames[w.number(len(readNames))], fmt.Sprint(i))
	}
	cancel()
	readers.Wait()
}

func (w *readWorld) write(name, value string) {
	_, exists := w.server.Versions(corev1.SchemeGroupVersion.WithResource("secrets"))[keyOf(name)]
	switch {
	case !exists:
		w.server.Create(secret(name, value))
		w.note(w.back, name)
	case w.number(2) == 0:
		w.note(w.gone, name)
		w.server.Delete(secret(name, ""))
	default:
		w.server.Update(secret(name, value))
	}
}

func (w *readWorld) note(what map[string]time.Time, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what[name] = time.Now()
}

// existedSince reports whether the object has existed since before the given time.
func (w *readWorld) existedSince(name string, began time.Time) bool {
	return w.gone[name].IsZero() || w.back[name].After(w.gone[name]) && w.back[name].Before(began)
}

func (w *readWorld) get(ctx context.Context, name string) {
	known, ok := w.inf.Metadata().Get(keyOf(name))
	began := time.Now()
	got, err := w.inf.Get(ctx, keyOf(name))
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case err == nil:
		w.found++
		if ok && object.OlderResourceVersion(got.ResourceVersion, known.ResourceVersion) {
			w.Errorf("%s: read version %s, the metadata had %s", name, got.ResourceVersion, known.ResourceVersion)
		}
	case !apierrors.IsNotFound(err):
		w.Error(err)
	default:
		w.missed++
		if ok && w.existedSince(name, began) {
			w.Errorf("%s has existed since before the read, and its metadata was known: %v", name, err)
		}
	}
}

func (w *readWorld) list(ctx context.Context) {
	before := w.inf.Metadata().Snapshot()
	list, err := w.inf.List(ctx, ondemand.ListOptions{})
	if err != nil && ctx.Err() == nil {
		w.Error(err)
	}
	for _, got := range list.Items {
		m, ok := before.Get(object.KeyOf(got))
		if ok && object.OlderResourceVersion(got.ResourceVersion, m.ResourceVersion) {
			w.Errorf("%s: listed version %s, the metadata had %s", got.Name, got.ResourceVersion, m.ResourceVersion)
		}
	}
}
