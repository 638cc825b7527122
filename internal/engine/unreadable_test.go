package engine

import (
	"errors"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/fold/file"
	"github.com/tidings/tidings/internal/saved"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// garbage is the key of the object of resumedFromGarbage that cannot be opened.
var garbage = object.Key{Name: "7"}

// resumedFromGarbage starts an informer from a file of manySettings, one of which is garbage with a valid checksum.
func resumedFromGarbage(t *testing.T, src source.ListerWatcher[settings], onError func(error), log io.Writer) *Informer[settings] {
	t.Helper()
	inf, pf := newSaved(t, t.TempDir(), true)
	identity := maps.Clone(pf.Identity)
	identity["cluster"] = "test"
	err := file.WriteFile(pf.Path, file.Header{Identity: identity, ResourceVersions: map[string]string{"": "7"}}, file.Options{}, func(w *file.Writer) error {
		var packer fold.Packer
		for _, o := range manySettings(alwaysListUpTo + 1) {
			data, err := settingsCodec(t).Append(nil, o)
			if err != nil {
				return err
			}
			if object.KeyOf(o) == garbage {
				data = []byte("\xff\xff\xff\xff")
			}
			if err := w.Write(file.Record{Name: o.Name, ResourceVersion: o.ResourceVersion, Object: packer.Pack(data, nil)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	inf = New(Config[settings]{
		Name: "configmaps", Namespaces: []string{""}, Memory: newBudget(1),
		NewSource: func(string) (source.ListerWatcher[settings], error) { return src, nil },
		Options: Options{
			Logger: slog.New(slog.NewTextHandler(log, nil)), Files: &saved.Options{Dir: filepath.Dir(pf.Path), Cluster: inf.cfg.Files.Cluster},
			NoWatchList: true, OnError: onError,
		},
	})
	if err := inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		inf.Halt(nil)
		<-inf.done
	})
	synctest.Wait()
	return inf
}

// TestUnreadableObjectIsListedAgain: readers miss it, which is logged, reported and corrected.
func TestUnreadableObjectIsListedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var reported atomic.Pointer[reflector.Error]
		inf := resumedFromGarbage(t, &answering{items: manySettings(alwaysListUpTo + 1)}, func(err error) {
			if e, ok := errors.AsType[*reflector.Error](err); ok {
				reported.Store(e)
			}
		}, &log)
		time.Sleep(time.Minute)
		if o, ok := inf.store.Snapshot().Get(garbage); ok {
			t.Fatalf("got %v of garbage", o)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if o, ok := inf.store.Snapshot().Get(garbage); !ok || o.Data["text"] == "" {
			t.Errorf("got %v, %t after a list", o, ok)
		}
		e := reported.Load()
		if e == nil || e.Reason != reflector.Diverged || !strings.Contains(e.Error(), "the folded object 7 cannot be opened: ") {
			t.Errorf("reported %v", e)
		}
		if text := log.String(); !strings.Contains(text, "cannot be opened") || !strings.Contains(text, "key=7") {
			t.Errorf("logged %q", text)
		}
	})
}

// TestUnreadableObjectsAreNotListedAllTheTime: if an object can never be opened, the server is asked only occasionally.
func TestUnreadableObjectsAreNotListedAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := resumedFromGarbage(t, &answering{items: manySettings(3)}, nil, io.Discard)
		p := inf.currentParts()[0]
		lists := func() uint64 { return p.reflector.Status().Lists }
		before := lists()
		for range 61 {
			inf.openFailed(garbage, errors.New("oh"))
			time.Sleep(10 * time.Second)
		}
		if got := lists() - before; got != 3 {
			t.Errorf("%d lists in ten minutes, want 3", got)
		}
	})
}

// TestUnreadableWhileItIsRemoved: removing an object that cannot be opened holds locks, and does not deadlock.
func TestUnreadableWhileItIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := resumedFromGarbage(t, &answering{list: errors.New("down")}, nil, io.Discard)
		if n := inf.store.Snapshot().Len(); n != alwaysListUpTo+1 {
			t.Fatalf("%d objects from the file", n)
		}
		inf.AddIndex("data", func(o *corev1.ConfigMap) []string { return []string{o.Name} })
		if err := inf.SetNamespaces(t.Context(), []string{"other"}); err != nil {
			t.Fatal(err)
		}
		if n := inf.store.Snapshot().Len(); n != 0 {
			t.Errorf("%d objects are left", n)
		}
	})
}
