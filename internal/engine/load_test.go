package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/fold/file"
	"github.com/tidings/tidings/internal/saved"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// panicky is an object of a user's type that panics when decoded.
type panicky struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              panickySpec `json:"spec"`
}

type panickySpec struct{}

func (panickySpec) UnmarshalJSON([]byte) error { panic("no, thank you") }

func (p *panicky) DeepCopyObject() kruntime.Object {
	return &panicky{TypeMeta: p.TypeMeta, ObjectMeta: *p.ObjectMeta.DeepCopy()}
}

// TestPanicWhileObjectsAreOpened: a panic in the code of the type is a reason not to use the file.
func TestPanicWhileObjectsAreOpened(t *testing.T) {
	both(t, func(t *testing.T, folding bool) {
		synctest.Test(t, func(t *testing.T) {
			inf := New(Config[*panicky]{Name: "panickies", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler),
				Files: &saved.Options{Dir: t.TempDir(), Cluster: func(context.Context) (string, error) { return "test", nil }}},
				NewSource: func(string) (source.ListerWatcher[*panicky], error) { return source.Funcs[*panicky]{}, nil },
			})
			if folding {
				inf.useMemory(newBudget(1), nil)
			}
			if _, err := inf.Subscribe(func(object.Delta[*panicky]) {}, HandlerOptions{}); err != nil {
				t.Fatal(err)
			}
			var err error
			if inf.files, err = inf.newFiles(); err != nil {
				t.Fatal(err)
			}
			pf := inf.files.OfPart("")
			identity := maps.Clone(pf.Identity)
			identity["cluster"] = "test"
			err = file.WriteFile(pf.Path, file.Header{Identity: identity, ResourceVersions: map[string]string{"": "7"}}, file.Options{}, func(w *file.Writer) error {
				var packer fold.Packer
				data := `{"metadata":{"name":"a","uid":"u","resourceVersion":"5"},"spec":{}}`
				return w.Write(file.Record{Name: "a", UID: "u", ResourceVersion: "5", Object: packer.Pack([]byte(data), nil)})
			})
			if err != nil {
				t.Fatal(err)
			}
			p, err := inf.newTestPart(pf)
			if err != nil {
				t.Fatal(err)
			}
			held, err := p.Resume(t.Context())
			if why := p.fileStatus().Discarded; err != nil || held.ResourceVersion != "" || why == nil || !strings.Contains(why.Error(), "no, thank you") {
				t.Errorf("resumed at %q, %v; discarded for %v", held.ResourceVersion, err, why)
			}
			inf.Halt(nil)
			<-inf.done
		})
	})
}

// TestLoadIsGivenUp if the part is removed before or after something was opened, and when it ends.
func TestLoadIsGivenUp(t *testing.T) {
	both(t, func(t *testing.T, folding bool) {
		next, p, pf := savedBefore(t, folding)
		if _, err := next.Subscribe(func(object.Delta[settings]) {}, HandlerOptions{}); err != nil {
			t.Fatal(err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if l, err := next.files.Load(ended, pf); !errors.Is(err, context.Canceled) {
			t.Errorf("%d objects were loaded, %v", l.Objects().Len(), err)
		} else {
			l.Close()
		}
		p.file = pf
		if held, err := p.Resume(ended); !errors.Is(err, context.Canceled) || held.ResourceVersion != "" ||
			p.fileStatus().Discarded != nil {
			t.Errorf("resumed at %q, %v; discarded for %v", held.ResourceVersion, err, p.fileStatus().Discarded)
		}
		load := func() *saved.Loaded[settings] {
			l, err := next.files.Load(t.Context(), pf)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.Close)
			return &l
		}
		p.removed = true
		if err := next.openLoaded(t.Context(), p, load()); folding && err != errPartRemoved {
			t.Errorf("opened for a part that was given up: %v", err)
		}
		if next.applyFile(p, load()) {
			t.Error("applied to a part that was given up")
		}
		p.removed = false
		if applied, err := next.takeOver(ended, p, load()); applied || err != nil {
			t.Errorf("taken over in the end: %t, %v", applied, err)
		}
		next.Halt(nil)
		<-next.done
	})
}

// TestFewLargeObjectsAreOpenedAtOnce while a file is loaded that the budget does not hold.
func TestFewLargeObjectsAreOpenedAtOnce(t *testing.T) {
	const n, size = 500, 200_000
	inf, pf := newSaved(t, t.TempDir(), false)
	fill(inf, n, 3)
	for _, o := range inf.store.Snapshot().All() {
		o.Data["text"] = strings.Repeat("x", size)
	}
	if err := save(t.Context(), inf, pf); err != nil {
		t.Fatal(err)
	}
	next, _ := newSaved(t, filepath.Dir(pf.Path), true)
	p, err := next.newTestPart(pf)
	if err != nil {
		t.Fatal(err)
	}
	opened := uint64(0) // before the first one is in the store
	next.AddIndex("generation", func(o settings) []string {
		if opened == 0 {
			opened = next.store.Snapshot().FoldStats().Opens
		}
		return []string{o.Data["generation"]}
	})
	l, err := next.files.Load(t.Context(), pf)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if applied, err := next.takeOver(t.Context(), p, &l); !applied || err != nil || next.store.Snapshot().Len() != n {
		t.Fatal(applied, err)
	}
	if opened == 0 || opened*size > 16<<20 {
		t.Errorf("%d objects of %d bytes were open before the first was in the store", opened, size)
	}
	next.Halt(nil)
	<-next.done
}

// TestWhatAFileTellsCounts: objects that are open for handlers that have not got them yet count in
// the budget, and can be released.
func TestWhatAFileTellsCounts(t *testing.T) {
	next, p, pf := savedBefore(t, true)
	s, err := next.Subscribe(func(object.Delta[settings]) {}, HandlerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := next.files.Load(t.Context(), pf)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if applied, err := next.takeOver(t.Context(), p, &l); !applied || err != nil {
		t.Fatal(applied, err)
	}
	if n := next.memory.OpenForHandlers(); n != 5 {
		t.Errorf("%d objects count, want 5", n)
	}
	if next.memory.Fold(false, func() bool { return true }); next.memory.OpenForHandlers() != 0 {
		t.Errorf("%d objects are kept open although memory is short", next.memory.OpenForHandlers())
	}
	runtime.KeepAlive(s) // whose queue has them
	next.Halt(nil)
	<-next.done
}

// TestListOlderThanItsFile: such a list is of another history, and replaces the store's state.
func TestListOlderThanItsFile(t *testing.T) {
	both(t, func(t *testing.T, folding bool) {
		for version, restored := range map[string]bool{"3998": true, "3999": false} {
			inf, pf := newSaved(t, t.TempDir(), folding)
			fill(inf, 5, 3) // at 3999
			if err := save(t.Context(), inf, pf); err != nil {
				t.Fatal(err)
			}
			var log strings.Builder
			next, _ := newSaved(t, filepath.Dir(pf.Path), folding)
			next.log = usercode.NewThrottledLog(slog.New(slog.NewTextHandler(&log, nil)))
			p, err := next.newTestPart(pf)
			if err != nil {
				t.Fatal(err)
			}
			if held, err := p.Resume(t.Context()); err != nil || held.ResourceVersion != "3999" {
				t.Fatalf("resumed at %q, %v", held.ResourceVersion, err)
			}
			o := namedSettings(1)
			o.ResourceVersion = "7"
			next.applyList(p, object.Items[settings]{o}, version, newerOnly)
			snap := next.store.Snapshot()
			if told := strings.Contains(log.String(), "probably restored from a backup"); told != restored || snap.Len() != 1 || snap.ResourceVersionIn("") != version {
				t.Errorf("listed at %s: restored %t, %d objects at %s", version, told, snap.Len(), snap.ResourceVersionIn(""))
			}
			next.Halt(nil)
			<-next.done
		}
	})
}

// TestFitIsMeasured: many small entries take far more memory than their encodings say. A file of
// such objects that the budget cannot hold open is not opened into the budget.
func TestFitIsMeasured(t *testing.T) {
	const objects, entries = 2000, 100
	dir := t.TempDir()
	from, pf := newSaved(t, dir, true)
	var items object.Items[settings]
	for i := range objects {
		o := namedSettings(i)
		o.ResourceVersion, o.UID, o.Data = "5", types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)), map[string]string{}
		for j := range entries {
			o.Data[fmt.Sprintf("%04x", i*entries+j)] = ""
		}
		items = append(items, o)
	}
	txn := from.writer.Begin()
	txn.Replace("", items, "9", false)
	txn.Commit()
	if err := save(t.Context(), from, pf); err != nil {
		t.Fatal(err)
	}
	open := sizeOf(items)
	for _, budget := range []int64{open * 9 / 10, 4 * open} {
		inf, pf := newSaved(t, dir, false)
		inf.useMemory(newBudget(budget), nil)
		p, err := inf.newTestPart(pf)
		if err != nil {
			t.Fatal(err)
		}
		l, err := inf.files.Load(t.Context(), pf)
		if err != nil {
			t.Fatal(err)
		}
		applied, err := inf.takeOver(t.Context(), p, &l)
		l.Close()
		inf.memory.Measure()
		st := inf.store.Snapshot().FoldStats()
		if used := inf.memory.Budget().Used(); !applied || err != nil || used > budget || budget > open && st.Open != objects {
			t.Errorf("%d of %d bytes are used, %d of %d objects open (%d bytes); %t, %v", used, budget, st.Open, objects, open, applied, err)
		}
	}
}
