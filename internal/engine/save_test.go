package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tidings/tidings/internal/guard"
	"github.com/tidings/tidings/internal/saved"
	"github.com/tidings/tidings/internal/store"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// bringing is a source whose watch brings what a test sends it.
type bringing struct {
	*answering
	events chan source.Event[settings]
}

func newBringing(items ...settings) bringing {
	return bringing{&answering{items: items}, make(chan source.Event[settings], 10)}
}

func (b bringing) Watch(ctx context.Context, _ source.WatchOptions[settings]) (source.Stream[settings], error) {
	return brings{b, ctx}, nil
}

type brings struct {
	bringing
	ctx context.Context
}

func (b brings) Next(buf []source.Event[settings]) ([]source.Event[settings], error) {
	select {
	case ev := <-b.events:
		return append(buf, ev), nil
	case <-b.ctx.Done():
		return buf, io.EOF
	}
}

func (b brings) Close() error { return nil }

// bring sends a new object at a version.
func (b bringing) bring(i int, version string) {
	o := namedSettings(i)
	o.ResourceVersion = version
	b.events <- source.Event[settings]{Type: source.Added, Object: o, ResourceVersion: version}
}

// onMessage is a log handler that calls back.
type onMessage struct {
	slog.Handler
	call func(message string)
}

func (h onMessage) Handle(ctx context.Context, r slog.Record) error {
	h.call(r.Message)
	return h.Handler.Handle(ctx, r)
}

func (h onMessage) WithAttrs([]slog.Attr) slog.Handler { return h }

// startSaving starts an informer that saves, and waits until it is idle. If call is set, each new
// object logs a line while it is being delivered, and call is called then.
func startSaving(t *testing.T, src source.ListerWatcher[settings], log *strings.Builder, call func(*Informer[settings])) *Informer[settings] {
	t.Helper()
	inf, _ := newSaved(t, t.TempDir(), false)
	inf.cfg.NewSource = func(string) (source.ListerWatcher[settings], error) { return src, nil }
	inf.cfg.NoWatchList = true
	inf.log = usercode.NewThrottledLog(slog.New(onMessage{slog.NewTextHandler(log, nil), func(message string) {
		if strings.Contains(message, "index function panicked") {
			call(inf)
		}
	}}))
	if call != nil {
		inf.AddIndex("panics", func(o settings) []string {
			if o.Name != "0" {
				panic("oh dear")
			}
			return nil
		})
	}
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

// wantSaved checks which objects the file holds, and at which version.
func wantSaved(t *testing.T, inf *Informer[settings], version string, objects int) {
	t.Helper()
	next, pf := newSaved(t, filepath.Dir(inf.currentParts()[0].file.Path), false)
	l, err := next.files.Load(t.Context(), pf)
	if err != nil || l.Version != version || l.Objects().Len() != objects {
		t.Errorf("%d objects were saved at %q, %v; want %d at %s", l.Objects().Len(), l.Version, err, objects, version)
	}
}

func first() settings {
	o := namedSettings(0)
	o.ResourceVersion = "5"
	return o
}

// TestStopWhileAChangeIsDelivered: the last save includes the change.
func TestStopWhileAChangeIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		src := newBringing(first())
		inf := startSaving(t, src, &log, func(inf *Informer[settings]) {
			inf.Halt(nil)
			time.Sleep(time.Second) // the change is in the store, but the reflector has not continued
		})
		src.bring(1, "20")
		<-inf.done
		if st := inf.Status().Parts[0].File; st.Saves != 1 || st.Failures != 0 || st.Err != nil {
			t.Errorf("%+v, logged %s", st, log.String())
		}
		wantSaved(t, inf, "20", 2)
	})
}

// TestStopFromWithinADelivery ends, although the delivery waits for the last save, which waits for
// the delivery. The reason why nothing is saved is logged.
func TestStopFromWithinADelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		src := newBringing(first())
		var stopped error
		inf := startSaving(t, src, &log, func(inf *Informer[settings]) { stopped = inf.Stop(t.Context()) })
		src.bring(1, "20")
		<-inf.done
		if st := inf.Status().Parts[0].File; stopped != nil || st.Saves != 0 || !errors.Is(st.Err, saved.ErrInFlight) || !strings.Contains(log.String(), saved.ErrInFlight.Error()) {
			t.Errorf("stopped with %v, %+v, logged %s", stopped, st, log.String())
		}
	})
}

// TestStopFromATransform ends, and the present state of the store is saved.
func TestStopFromATransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newBringing(first())
		inf, _ := newSaved(t, t.TempDir(), false)
		inf.cfg.NewSource = func(string) (source.ListerWatcher[settings], error) { return src, nil }
		inf.cfg.NoWatchList, inf.cfg.Files.TransformVersion = true, "1"
		stopped := errors.New("not stopped")
		err := inf.SetTransform(func(o settings) (settings, error) {
			if o.Name == "1" {
				stopped = inf.Stop(t.Context())
			}
			return o, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		src.bring(1, "20")
		<-inf.done
		if st := inf.Status().Parts[0].File; stopped != nil || st.Saves != 1 || st.SavedObjects != 1 {
			t.Errorf("stopped with %v, %+v", stopped, st)
		}
	})
}

// TestStopWhileASourceHangs: the last save waits for it only as long as it must.
func TestStopWhileASourceHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := startSaving(t, hanging{&answering{items: []settings{first()}}}, &strings.Builder{}, nil)
		inf.Halt(nil)
		began := time.Now()
		<-inf.files.Endings()[0].Done
		if st := inf.Status().Parts[0].File; st.Saves != 1 || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), st)
		}
		<-inf.done
	})
}

// hanging is a source whose watches do not end when canceled.
type hanging struct{ *answering }

func (h hanging) Watch(ctx context.Context, _ source.WatchOptions[settings]) (source.Stream[settings], error) {
	return hangs{quiet{ctx}}, nil
}

type hangs struct{ quiet }

func (h hangs) Next(buf []source.Event[settings]) ([]source.Event[settings], error) {
	<-h.ctx.Done()
	time.Sleep(time.Minute)
	return buf, io.EOF
}

// TestSaveDuringADelivery waits for it briefly; if it takes long, the reason is reported, and the
// next save includes it.
func TestSaveDuringADelivery(t *testing.T) {
	for took, inTime := range map[time.Duration]bool{50 * time.Millisecond: true, time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			src := newBringing(first())
			inf := startSaving(t, src, &log, func(*Informer[settings]) { time.Sleep(took) })
			src.bring(1, "20")
			synctest.Wait()
			p := inf.currentParts()[0]
			inf.files.Save(t.Context(), p)
			switch st := p.fileStatus(); {
			case inTime && (st.Saves != 1 || st.SavedObjects != 2 || st.Failures != 0):
				t.Errorf("%+v", st)
			case !inTime && (st.Saves != 0 || !errors.Is(st.Err, saved.ErrInFlight)):
				t.Errorf("%+v", st)
			}
			time.Sleep(took)
			synctest.Wait()
			if said := strings.Contains(log.String(), saved.ErrInFlight.Error()); said == inTime {
				t.Errorf("logged %s", log.String())
			}
			inf.files.Save(t.Context(), p)
			if st := p.fileStatus(); st.Saves != 1 || st.Err != nil {
				t.Errorf("after it: %+v", st)
			}
		})
	}
}

// TestServerIsDownInTheEnd: with many namespaces, the cluster is asked for once, not for each.
func TestServerIsDownInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf, _ := newSaved(t, t.TempDir(), false)
		inf.cfg.Namespaces = []string{"a", "b", "c"}
		inf.cfg.NewSource = func(string) (source.ListerWatcher[settings], error) { return &answering{}, nil }
		inf.cfg.NoWatchList = true
		asked := 0
		inf.cfg.Files.Cluster = func(context.Context) (string, error) {
			asked++
			time.Sleep(10 * time.Second)
			return "", errors.New("no answer")
		}
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		inf.Halt(nil)
		began := time.Now()
		<-inf.done
		if took := time.Since(began); took != 10*time.Second || asked != 1 {
			t.Errorf("asked %d times, which took %v", asked, took)
		}
		if st := inf.Status().Parts[0].File; st.Failures != 1 || st.Err == nil || st.Err.Error() != "no answer" {
			t.Errorf("%+v", st)
		}
	})
}

// TestDirectoryThatComesBack: the file in it was out of reach for a while, which is no problem any more.
func TestDirectoryThatComesBack(t *testing.T) {
	for name, block := range map[string]func(dir string) error{
		"link to nowhere": func(dir string) error { return os.Symlink(dir+" gone", dir) },
		"file":            func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf := startSaving(t, &answering{items: []settings{first()}}, &strings.Builder{}, nil)
				p, dir := inf.currentParts()[0], inf.files.Dir
				inf.files.Save(t.Context(), p)
				if err := errors.Join(os.Rename(dir, dir+" away"), block(dir)); err != nil {
					t.Fatal(err)
				}
				inf.files.Save(t.Context(), p)
				if st := p.fileStatus(); st.Saves != 1 || st.Failures != 1 || st.Err == nil {
					t.Errorf("%+v", st)
				}
				if err := errors.Join(os.Remove(dir), os.Rename(dir+" away", dir)); err != nil {
					t.Fatal(err)
				}
				inf.files.Save(t.Context(), p)
				if st := p.fileStatus(); st.Saves != 1 || st.Failures != 1 || st.Err != nil {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// noStats is a source whose Stats panics.
type noStats struct{ *answering }

func (noStats) Stats() source.Stats { panic("no statistics") }

// TestPanicWhileSaving counts as a failure, and leaves nothing in the directory.
func TestPanicWhileSaving(t *testing.T) {
	for word, tt := range map[string]struct {
		src  source.ListerWatcher[settings]
		harm func(*Informer[settings])
	}{
		"no statistics": {noStats{&answering{items: []settings{first()}}}, func(*Informer[settings]) {}},
		"which cluster": {&answering{items: []settings{first()}}, func(inf *Informer[settings]) {
			inf.files.Cluster = func(context.Context) (string, error) { panic("which cluster") }
		}},
		"nil pointer": {&answering{items: []settings{first()}}, func(inf *Informer[settings]) { inf.files.Cluster = nil }},
	} {
		t.Run(word, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				inf := startSaving(t, tt.src, &log, nil)
				p := inf.currentParts()[0]
				tt.harm(inf)
				inf.files.Save(t.Context(), p)
				if st := p.fileStatus(); st.Saves != 0 || st.Failures != 1 || st.Err == nil || !strings.Contains(st.Err.Error(), word) || !strings.Contains(log.String(), word) {
					t.Errorf("%+v, logged %s", st, log.String())
				}
				if left, err := filepath.Glob(filepath.Join(inf.files.Dir, "*")); err != nil || len(left) > 0 {
					t.Errorf("%v, %v are left", left, err)
				}
			})
		})
	}
}

// unmarshalable is an object whose encoding fails with a nil pointer, all of whose methods panic.
type unmarshalable struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

type nilError struct{ cause error }

func (e *nilError) Error() string { return e.cause.Error() }
func (e *nilError) Unwrap() error { return e.cause }

func (*unmarshalable) MarshalJSON() ([]byte, error) { return nil, (*nilError)(nil) }

func (u *unmarshalable) DeepCopyObject() runtime.Object {
	return &unmarshalable{u.TypeMeta, *u.ObjectMeta.DeepCopy()}
}

// TestErrorThatPanicsWhileSaving counts as a failure.
func TestErrorThatPanicsWhileSaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := source.Funcs[*unmarshalable]{
			ListFunc: func(_ context.Context, _ source.ListOptions[*unmarshalable], each func(*unmarshalable) error) (source.ListResult, error) {
				return source.ListResult{ResourceVersion: "10"}, each(&unmarshalable{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "5"}})
			},
			WatchFunc: func(ctx context.Context, _ source.WatchOptions[*unmarshalable]) (source.Stream[*unmarshalable], error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		}
		inf := New(Config[*unmarshalable]{Name: "unmarshalables", Namespaces: []string{""}, Options: Options{
			Logger: slog.New(slog.DiscardHandler), NoWatchList: true,
			Files: &saved.Options{Dir: t.TempDir(), Cluster: func(context.Context) (string, error) { return "test", nil }},
		}, NewSource: func(string) (source.ListerWatcher[*unmarshalable], error) { return src, nil }})
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		inf.Halt(nil)
		<-inf.done
		if st := inf.Status().Parts[0].File; st.Saves != 0 || st.Failures != 1 || st.Err == nil || !strings.Contains(st.Err.Error(), "encode engine.unmarshalable") {
			t.Errorf("%+v", st)
		}
	})
}

// TestWhatWasWrittenByHandIsNotSaved: a watch resumed from it would never bring what is missing.
// Even edits from before the start may survive the first list, which does not look at an object of
// the same uid and version.
func TestWhatWasWrittenByHandIsNotSaved(t *testing.T) {
	for _, started := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			inf, _ := newSaved(t, t.TempDir(), false)
			inf.cfg.NewSource = func(string) (source.ListerWatcher[settings], error) {
				return &answering{items: []settings{first()}}, nil
			}
			inf.cfg.NoWatchList = true
			remove := func() { inf.Edit(func(txn *store.Txn[settings]) { txn.Remove(keyOf(0)) }) }
			if !started {
				remove()
			}
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if started {
				remove()
			}
			inf.Halt(nil)
			<-inf.done
			if st := inf.Status().Parts[0].File; st.Saves != 0 || !errors.Is(st.Err, errEdited) {
				t.Errorf("written to after the start: %t, %+v", started, st)
			}
		})
	}
}

// TestLastLookOfTheGuardComesBeforeTheLastSave: an object that somebody has written to, which the
// guard finds only at the end, is not saved.
func TestLastLookOfTheGuardComesBeforeTheLastSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := startSaving(t, &answering{items: []settings{first()}}, &strings.Builder{}, nil)
		o, _ := inf.store.Snapshot().Get(keyOf(0))
		inf.guard.sampler.Keep(o, guard.EveryChange)
		o.Labels = map[string]string{"written": "to"}
		inf.Halt(nil)
		<-inf.done
		if st := inf.Status(); st.Parts[0].File.Saves != 0 || !errors.Is(st.Parts[0].File.Err, errWrittenTo) || st.Mutations == 0 {
			t.Errorf("%d mutations, %+v", st.Mutations, st.Parts[0].File)
		}
	})
}

// TestSkippedObjectsAreTheReason why nothing is saved, if there are any.
func TestSkippedObjectsAreTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newBringing(first())
		inf := startSaving(t, src, &strings.Builder{}, nil)
		src.events <- source.Event[settings]{Type: source.Invalid, Err: &source.ObjectError{Key: object.Key{Name: "1"}, Event: source.Added, ResourceVersion: "20", Err: errors.New("no object")}}
		synctest.Wait()
		if _, _, err := inf.currentParts()[0].ToSave(); !errors.Is(err, errIncomplete) {
			t.Error(err)
		}
	})
}
