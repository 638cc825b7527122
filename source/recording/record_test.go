package recording_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings"
	"github.com/tidings/tidings/internal/intake"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/source/recording"
	"github.com/tidings/tidings/tidingstest"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func configMap(n, value int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("cm-", n)}, Data: map[string]string{"value": fmt.Sprint(value)},
	}
}

// story is the sequence of a handler's notifications.
type story struct {
	mu    sync.Mutex
	lines []string
}

func (s *story) tell(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *story) handler() tidings.Handler[*corev1.ConfigMap] {
	return tidings.HandlerFuncs[*corev1.ConfigMap]{
		Add: func(o *corev1.ConfigMap, initial bool) {
			s.tell("add %s %s %s %t", o.Name, o.ResourceVersion, o.Data["value"], initial)
		},
		Update: func(_, o *corev1.ConfigMap) { s.tell("update %s %s %s", o.Name, o.ResourceVersion, o.Data["value"]) },
		Delete: func(gone tidings.Tombstone[*corev1.ConfigMap]) {
			s.tell("delete %s %s %t", gone.Key.Name, gone.Object.ResourceVersion, gone.FinalStateUnknown)
		},
	}
}

// follow runs an informer until the function returns, and returns its handler's notifications and its store's contents.
func follow(t *testing.T, inf *tidings.SharedInformer[*corev1.ConfigMap], until func()) ([]string, map[object.Key]string) {
	t.Helper()
	var s story
	if _, err := inf.AddHandler(s.handler(), tidings.HandlerOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	until()
	synctest.Wait()
	held := map[object.Key]string{}
	for o := range inf.Lister().All() {
		held[object.KeyOf(o)] = o.ResourceVersion + " " + o.Data["value"]
	}
	if err := inf.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	return s.lines, held
}

// TestReplay: for random writes and faults, playing the recording leads to the same notifications, and the same store.
func TestReplay(t *testing.T) {
	testseed.Each(t, 4, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			options := tidings.Options{Seed: 1 + seed%1000, Logger: slog.New(slog.DiscardHandler), NoWatchList: random.IntN(2) == 0}
			var file bytes.Buffer
			recorder, err := recording.NewRecorder(&file, recording.Options{})
			if err != nil {
				t.Fatal(err)
			}
			told, held := record(t, random, options, recorder)
			if err := recorder.Close(); err != nil {
				t.Fatal(err)
			}
			for _, speed := range []float64{1, 100, recording.AtOnce} {
				rec, err := recording.Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
				if err != nil {
					t.Fatal(err)
				}
				if err := rec.Incomplete(); err != nil {
					t.Error(err)
				}
				playedStory, playedHeld := play(t, rec, options, speed)
				if !maps.Equal(playedHeld, held) {
					t.Errorf("speed %v: the store is\n%v, not\n%v", speed, playedHeld, held)
				}
				if speed == 1 && strings.Join(playedStory, "\n") != strings.Join(told, "\n") {
					t.Errorf("the handler was told\n%s\nnot\n%s", strings.Join(playedStory, "\n"), strings.Join(told, "\n"))
				}
			}
		})
	})
}

// record follows a server with faults for some minutes.
func record(t *testing.T, random *rand.Rand, options tidings.Options, recorder *recording.Recorder) ([]string, map[object.Key]string) {
	t.Helper()
	server := tidingstest.NewServer(t, tidingstest.ServerOptions{History: 50})
	for i := range 5 {
		server.Create(configMap(i, 0))
	}
	options.Recorder = recorder
	factory, err := tidings.NewFactory(server.Config(), options)
	if err != nil {
		t.Fatal(err)
	}
	inf, err := tidings.Informer[*corev1.ConfigMap](factory, tidings.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	return follow(t, inf, func() {
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		troubles(t, random, server)
	})
}

func troubles(t *testing.T, random *rand.Rand, server *tidingstest.Server) {
	ctx, stop := context.WithCancel(t.Context())
	disturbed := make(chan struct{})
	chaos := tidingstest.Chaos{Seed: random.Uint64(), Interval: 20 * time.Second}
	go func() {
		defer close(disturbed)
		server.Disturb(ctx, chaos)
	}()
	known := map[int]bool{0: true, 1: true, 2: true, 3: true, 4: true}
	for range 120 {
		time.Sleep(time.Duration(random.Int64N(int64(3 * time.Second)))) // of the bubble
		n := random.IntN(8)
		switch {
		case !known[n]:
			server.Create(configMap(n, random.IntN(1000)))
			known[n] = true
		case random.IntN(4) == 0:
			server.Delete(configMap(n, 0))
			delete(known, n)
		default:
			server.Update(configMap(n, random.IntN(1000)))
		}
	}
	stop()
	<-disturbed
	time.Sleep(2 * time.Minute)
}

func play(t *testing.T, rec *recording.Recording, options tidings.Options, speed float64) ([]string, map[object.Key]string) {
	t.Helper()
	player, err := recording.Play[*corev1.ConfigMap](rec, source.Scope{Resource: configMaps}, recording.PlayOptions{Speed: speed})
	if err != nil {
		t.Fatal(err)
	}
	inf, err := tidings.NewInformer(player, tidings.InformerOptions[*corev1.ConfigMap]{Options: options})
	if err != nil {
		t.Fatal(err)
	}
	return follow(t, inf, func() { <-player.Done() })
}

// TestRecordingChangesNothing compares a recorded source with one that is not, also if nothing can be written.
func TestRecordingChangesNothing(t *testing.T) {
	for _, limit := range []int64{0, 900} {
		server := tidingstest.NewServer(t, tidingstest.ServerOptions{})
		for i := range 20 {
			server.Create(configMap(i, i))
		}
		client, err := source.NewClient(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		scope := source.Scope{Resource: configMaps}
		plain, err := source.NewHTTP[*corev1.ConfigMap](client, scope)
		if err != nil {
			t.Fatal(err)
		}
		recorder, err := recording.NewRecorder(io.Discard, recording.Options{MaxBytes: limit})
		if err != nil {
			t.Fatal(err)
		}
		recorded := recording.Record(recorder, source.ListerWatcher[*corev1.ConfigMap](plain), scope)
		var versions [2][]string
		for i, src := range []source.ListerWatcher[*corev1.ConfigMap]{plain, recorded} {
			_, err := src.List(t.Context(), source.ListOptions[*corev1.ConfigMap]{}, func(o *corev1.ConfigMap) error {
				versions[i] = append(versions[i], o.Name+o.ResourceVersion)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(versions[0]) != 20 || fmt.Sprint(versions[0]) != fmt.Sprint(versions[1]) {
			t.Errorf("got %v and %v", versions[0], versions[1])
		}
		remembers, want := intake.SharedParts{Of: recorded}.SharedBytes(), intake.SharedParts{Of: plain}.SharedBytes()
		if remembers == 0 || remembers != want {
			t.Errorf("the recorded source says that it remembers %d bytes of %d", remembers, want)
		}
		if full := errors.Is(recorder.Err(), recording.ErrFull); full != (limit > 0) {
			t.Errorf("with a limit of %d: %v", limit, recorder.Err())
		}
	}
}

// TestFull: a recording that has reached its limit does not exceed it, reports it, and can be played as far as it goes.
func TestFull(t *testing.T) {
	var file bytes.Buffer
	const limit = 4000
	recorder, err := recording.NewRecorder(&file, recording.Options{MaxBytes: limit})
	if err != nil {
		t.Fatal(err)
	}
	src := recording.Record(recorder, listOf(100), source.Scope{Resource: configMaps})
	if _, err := src.List(t.Context(), source.ListOptions[*corev1.ConfigMap]{}, ignore); err != nil {
		t.Fatal(err)
	}
	if err := recorder.Close(); !errors.Is(err, recording.ErrFull) || file.Len() > limit {
		t.Fatalf("%d bytes, %v", file.Len(), err)
	}
	rec, err := recording.Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(rec.Incomplete(), recording.ErrFull) {
		t.Errorf("incomplete: %v", rec.Incomplete())
	}
	player, err := recording.Play[*corev1.ConfigMap](rec, source.Scope{Resource: configMaps}, recording.PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	_, err = player.List(t.Context(), source.ListOptions[*corev1.ConfigMap]{}, func(*corev1.ConfigMap) error { n++; return nil })
	if n == 0 || n >= 100 || err == nil {
		t.Errorf("%d objects, %v", n, err)
	}
}

func ignore(*corev1.ConfigMap) error { return nil }

// listOf is a source of n config maps.
func listOf(n int) source.ListerWatcher[*corev1.ConfigMap] {
	return source.Funcs[*corev1.ConfigMap]{
		ListFunc: func(_ context.Context, _ source.ListOptions[*corev1.ConfigMap], each func(*corev1.ConfigMap) error) (source.ListResult, error) {
			for i := range n {
				if err := each(configMap(i, i)); err != nil {
					return source.ListResult{}, err
				}
			}
			return source.ListResult{ResourceVersion: "7"}, nil
		},
	}
}

type brokenWriter struct{ left int }

func (w *brokenWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errors.New("no space left on device")
	}
	return len(b), nil
}

func TestDiskFull(t *testing.T) {
	recorder, err := recording.NewRecorder(&brokenWriter{left: 300}, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	src := recording.Record(recorder, listOf(1000), source.Scope{Resource: configMaps})
	n := 0
	_, err = src.List(t.Context(), source.ListOptions[*corev1.ConfigMap]{}, func(*corev1.ConfigMap) error { n++; return nil })
	if err != nil || n != 1000 {
		t.Errorf("%d objects, %v; recording must not get in the way", n, err)
	}
	if err := recorder.Close(); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("closed with %v", err)
	}
}

func TestFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	recorder, err := recording.Create(path, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := recording.Create(path, recording.Options{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("over an existing file: %v", err)
	}
}

// TestUnstructured plays a recording of typed objects as unstructured ones.
func TestUnstructured(t *testing.T) {
	var file bytes.Buffer
	recorder, err := recording.NewRecorder(&file, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := recording.Record(recorder, listOf(2), source.Scope{Resource: configMaps}).List(t.Context(), source.ListOptions[*corev1.ConfigMap]{}, ignore); err != nil {
		t.Fatal(err)
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := recording.Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	player, err := recording.Play[*unstructured.Unstructured](rec, rec.Collections()[0], recording.PlayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	_, err = player.List(t.Context(), source.ListOptions[*unstructured.Unstructured]{}, func(u *unstructured.Unstructured) error {
		if n++; u.GetKind() != "ConfigMap" || u.GetAPIVersion() != "v1" {
			t.Errorf("got %v", u.GroupVersionKind())
		}
		return nil
	})
	if err != nil || n != 2 {
		t.Errorf("%d objects, %v", n, err)
	}
	if _, err := player.List(t.Context(), source.ListOptions[*unstructured.Unstructured]{}, nil); !errors.Is(err, recording.ErrPlayed) {
		t.Errorf("another list: %v", err)
	}
}
