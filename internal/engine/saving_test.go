package engine

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/internal/saved"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// TestTypeThatCannotBeSaved: a type without a codec is not saved, and the status says why.
func TestTypeThatCannotBeSaved(t *testing.T) {
	inf := New(Config[object.Object]{Name: "anything", Options: Options{Logger: slog.New(slog.DiscardHandler),
		Files: &saved.Options{Dir: t.TempDir(), Cluster: func(context.Context) (string, error) { return "test", nil }}}})
	f, err := inf.newFiles()
	if err != nil {
		t.Fatal(err)
	}
	if pf := f.OfPart(""); pf.Path != "" || pf.Status().Err == nil || !strings.Contains(pf.Status().Err.Error(), "not saved: ") {
		t.Errorf("%+v", pf)
	}
}

// runningWithFile returns an informer that runs in a bubble, with three objects, and its part. The
// informer does not save by itself.
func runningWithFile(t *testing.T) (*Informer[settings], *part[settings]) {
	t.Helper()
	inf, _ := newSaved(t, t.TempDir(), false)
	inf.cfg.NewSource = func(string) (source.ListerWatcher[settings], error) { return &answering{items: manySettings(3)}, nil }
	inf.cfg.NoWatchList = true
	if err := inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return inf, inf.currentParts()[0]
}

// TestSaveThatIsGivenUp because the informer ends is neither a save nor a failure, and leaves no file.
func TestSaveThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf, p := runningWithFile(t)
		for _, err := range []error{errors.New("which one is it"), nil} {
			ctx, cancel := context.WithCancel(t.Context())
			inf.files.Cluster = func(context.Context) (string, error) {
				cancel()
				return "test", err
			}
			inf.files.Save(ctx, p)
			inf.files.SaveAll(ctx)
			if _, err := os.Stat(p.file.Path); !errors.Is(err, fs.ErrNotExist) || p.fileStatus().Failures+p.fileStatus().Saves != 0 {
				t.Errorf("%+v; %v", p.fileStatus(), err)
			}
		}
		inf.files.Cluster = func(context.Context) (string, error) { return "test", nil }
		inf.files.SaveAll(t.Context())
		if st := p.fileStatus(); st.Saves != 1 || st.SavedObjects != 3 || p.file.SavedVersion() != "10" {
			t.Errorf("%+v", st)
		}
		inf.Halt(nil)
		<-inf.done
	})
}

// TestWhatMayBeSecretIsNotSaved, open or folded, unless that is requested or the resource is known.
func TestWhatMayBeSecretIsNotSaved(t *testing.T) {
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	for _, tt := range []struct {
		resource                     schema.GroupVersionResource
		allowed, refused, surprising bool
	}{
		{refused: true, surprising: true}, {allowed: true}, {resource: pods},
		{resource: pods.GroupVersion().WithResource("secrets"), refused: true},
	} {
		inf := New(Config[*unstructured.Unstructured]{Name: "anything", Resource: tt.resource, Options: Options{Logger: slog.New(slog.DiscardHandler),
			Files: &saved.Options{Dir: t.TempDir(), Key: make([]byte, 32), Secrets: tt.allowed, Cluster: func(context.Context) (string, error) { return "test", nil }}}})
		f, err := inf.newFiles()
		if err != nil {
			t.Fatal(err)
		}
		reason, surprising := f.Disabled()
		if (reason != nil) != tt.refused || surprising != tt.surprising || (f.OfPart("").Path == "") != tt.refused {
			t.Errorf("%+v: refused with %v, saved at %q", tt, reason, f.OfPart("").Path)
		}
	}
}

// TestFileThatBecomesWrongWhileItIsWritten is written again, although nothing is new.
func TestFileThatBecomesWrongWhileItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf, p := runningWithFile(t)
		for saves, wrong := range []bool{true, true, false, false} {
			inf.files.Cluster = func(context.Context) (string, error) {
				if wrong {
					p.file.Invalidate()
				}
				return "test", nil
			}
			inf.files.Save(t.Context(), p)
			if st := p.fileStatus(); st.Saves != uint64(min(saves+1, 3)) || (p.file.SavedVersion() == "") != wrong {
				t.Errorf("attempt %d: %+v, at version %q", saves+1, st, p.file.SavedVersion())
			}
		}
		inf.Halt(nil)
		<-inf.done
	})
}
