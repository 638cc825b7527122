package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tidings/tidings/internal/codec"
	"github.com/tidings/tidings/internal/fold"
	"github.com/tidings/tidings/internal/fold/file"
	"github.com/tidings/tidings/internal/memory"
	"github.com/tidings/tidings/internal/saved"
	"github.com/tidings/tidings/internal/testseed"
	"github.com/tidings/tidings/internal/usercode"
	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

type settings = *corev1.ConfigMap

// newSaved returns an informer that is not running, with the file of its only part.
func newSaved(tb testing.TB, dir string, folding bool) (*Informer[settings], *saved.File) {
	tb.Helper()
	inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{""}, Options: Options{
		Logger: slog.New(slog.DiscardHandler),
		Files:  &saved.Options{Dir: dir, Cluster: func(context.Context) (string, error) { return "test", nil }},
	}})
	if folding {
		inf.useMemory(newBudget(1), nil)
	}
	var err error
	if inf.files, err = inf.newFiles(); err != nil {
		tb.Fatal(err)
	}
	if reason, _ := inf.files.Disabled(); reason != nil {
		tb.Fatal(reason)
	}
	return inf, inf.files.OfPart("")
}

// settingsCodec returns a codec of its own.
func settingsCodec(t *testing.T) *codec.Objects[settings] {
	t.Helper()
	c, err := codec.NewAs[settings](reflect.TypeFor[settings](), 0)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// savedBefore returns an informer that is not running and its part, with a file of five objects
// that another informer saved.
func savedBefore(t *testing.T, folding bool) (*Informer[settings], *part[settings], *saved.File) {
	t.Helper()
	inf, pf := newSaved(t, t.TempDir(), folding)
	fill(inf, 5, 3)
	if err := save(t.Context(), inf, pf); err != nil {
		t.Fatal(err)
	}
	next, _ := newSaved(t, filepath.Dir(pf.Path), folding)
	p, err := next.newTestPart(pf)
	if err != nil {
		t.Fatal(err)
	}
	return next, p, pf
}

// fill makes n objects of one generation the content of the store.
func fill(inf *Informer[settings], n, generation int) {
	var items object.Items[settings]
	for i := range n {
		items = append(items, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: fmt.Sprintf("s-%04d", i), UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)),
				ResourceVersion: strconv.Itoa(1000*generation + i),
			},
			Data: map[string]string{"generation": strconv.Itoa(generation)},
		})
	}
	txn := inf.writer.Begin()
	txn.Replace("", items, strconv.Itoa(1000*generation+999), false)
	txn.Commit()
}

// save writes the store to the file.
func save(ctx context.Context, inf *Informer[settings], pf *saved.File) error {
	snap := inf.store.Snapshot()
	_, err := inf.files.Write(ctx, pf, snap, snap.ResourceVersion(), time.Now())
	return err
}

func both(t *testing.T, test func(t *testing.T, folding bool)) {
	for _, folding := range []bool{false, true} {
		t.Run(fmt.Sprintf("folding=%t", folding), func(t *testing.T) { test(t, folding) })
	}
}

// TestSaveAndLoad saves and loads a store, between stores that can fold and ones that cannot.
func TestSaveAndLoad(t *testing.T) {
	both(t, func(t *testing.T, from bool) {
		both(t, func(t *testing.T, to bool) {
			dir := t.TempDir()
			inf, pf := newSaved(t, dir, from)
			fill(inf, 700, 3)
			if from {
				cold := inf.store.PackCold(object.Key{}, 1000, true)
				txn := inf.writer.Begin()
				if txn.Fold(cold) == 0 {
					t.Fatal("nothing was folded")
				}
				txn.Commit()
			}
			if err := save(t.Context(), inf, pf); err != nil {
				t.Fatal(err)
			}
			next, pf := newSaved(t, dir, to)
			l, err := next.files.Load(t.Context(), pf)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if want := (object.Key{Namespace: "shop", Name: "s-0699"}); l.Version != "3999" || l.Newest != want || l.Objects().Len() != 700 {
				t.Errorf("loaded %d objects at %s, the newest %v", l.Objects().Len(), l.Version, l.Newest)
			}
			wantGeneration(t, l.Objects(), "3")
		})
	})
}

// wantGeneration checks that all objects are of one generation.
func wantGeneration(t *testing.T, objects object.Collection[settings], generation string) {
	t.Helper()
	i := 0
	for key, o := range objects.All() {
		if want := fmt.Sprintf("s-%04d", i); key.Name != want || o.Name != want || o.Data["generation"] != generation {
			t.Fatalf("object %d is %v of generation %s, want %s", i, key, o.Data["generation"], generation)
		}
		i++
	}
}

// FuzzLoad reads arbitrary bytes: anything but a valid file is an error.
func FuzzLoad(f *testing.F) {
	inf, pf := newSaved(f, f.TempDir(), false)
	fill(inf, 40, 1)
	if err := save(f.Context(), inf, pf); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(pf.Path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(append(whole[:len(whole):len(whole)], whole...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(pf.Path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := inf.files.Load(t.Context(), pf)
		switch {
		case err != nil && string(data) == string(whole):
			t.Fatal(err)
		case err == nil && l.Objects().Len() != 40: // another fuzzing process uses the same files
			t.Fatalf("%d bytes were read as %d objects", len(data), l.Objects().Len())
		case err == nil:
			wantGeneration(t, l.Objects(), "1")
		}
	})
}

// FuzzHostileRecord reads files with valid frames and arbitrary records.
func FuzzHostileRecord(f *testing.F) {
	f.Add([]byte("\x00\x00\x0a\x00"), "shop", "a", "u", "5")
	f.Add([]byte{}, "", "", "", "")
	f.Add([]byte("\xff\xff\xff\xff"), "shop", "a", "u", "99999999999999999999")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, encoded []byte, namespace, name, uid, version string) {
		for _, folding := range []bool{false, true} {
			inf, pf := newSaved(t, dir, folding)
			if folding {
				inf.AddIndex("namespace", func(o settings) []string { return []string{o.GetNamespace()} })
			}
			identity := map[string]string{"cluster": "test"}
			for key, value := range pf.Identity {
				identity[key] = value
			}
			header := file.Header{Identity: identity, ResourceVersions: map[string]string{"": "7"}}
			err := file.WriteFile(pf.Path, header, file.Options{}, func(w *file.Writer) error {
				var packer fold.Packer
				record := file.Record{Namespace: namespace, Name: name, UID: uid, ResourceVersion: version, Object: packer.Pack(encoded, nil)}
				return errors.Join(w.Write(record), w.Write(record)) // twice, which no writer does
			})
			if err != nil {
				t.Skip(err)
			}
			p, err := inf.newTestPart(pf)
			if err != nil {
				t.Fatal(err)
			}
			l, err := inf.files.Load(t.Context(), pf)
			if err != nil {
				l.Close()
				continue
			}
			_, err = inf.takeOver(t.Context(), p, &l)
			l.Close()
			if err != nil {
				continue
			}
			for key, o := range inf.store.Snapshot().All() {
				if object.KeyOf(o) != key && !folding || object.OlderResourceVersion("7", version) {
					t.Errorf("the store has %v under %v from a file of version 7", o, key)
				}
			}
		}
	})
}

// Subscribe adds a handler.
func (inf *Informer[T]) Subscribe(deliver func(object.Delta[T]), opts HandlerOptions) (*Subscription[T], error) {
	s := inf.NewSubscription(Receiver[T]{Deliver: deliver}, opts)
	return s, s.Start()
}

func (inf *Informer[T]) newTestPart(pf *saved.File) (*part[T], error) {
	if inf.cfg.NewSource == nil {
		inf.cfg.NewSource = func(string) (source.ListerWatcher[T], error) { return source.Funcs[T]{}, nil }
	}
	p, err := inf.newPart("")
	if err == nil {
		p.file = pf
	}
	return p, err
}

// TestKilledWhileSaving kills a process that saves one generation after another, at any point. The
// file left is one of them.
func TestKilledWhileSaving(t *testing.T) {
	const rounds, objects = 12, 300
	random := rand.New(rand.NewPCG(testseed.Seed(t), 0))
	dir := t.TempDir()
	last := ""
	for round := range rounds {
		killWhileSaving(t, dir, round, random.IntN(4*objects))
		inf, pf := newSaved(t, dir, false)
		l, err := inf.files.Load(t.Context(), pf)
		if errors.Is(err, fs.ErrNotExist) && last == "" {
			continue
		}
		if err != nil || l.Objects().Len() != objects {
			t.Fatalf("round %d: %d objects, %v", round, l.Items.Len(), err)
		}
		if object.OlderResourceVersion(l.Version, last) {
			t.Errorf("round %d: the file went back from %s to %s", round, last, l.Version)
		}
		last = l.Version
		generation, _ := strconv.Atoi(l.Version)
		wantGeneration(t, l.Objects(), strconv.Itoa(generation/1000))
	}
	if last == "" {
		t.Error("no file was ever complete")
	}
}

// killWhileSaving runs a child that writes a byte before each record, and kills it after that many.
func killWhileSaving(t *testing.T, dir string, round, after int) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestSavingChild$")
	child.Env = append(os.Environ(), "SAVING_CHILD_DIR="+dir, "SAVING_CHILD_ROUND="+strconv.Itoa(round))
	steps, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1)
	for range after {
		if _, err := steps.Read(buf); err != nil {
			t.Fatal(err)
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
}

// stepping is a context that writes a byte whenever its error is checked.
type stepping struct{ context.Context }

func (stepping) Err() error {
	os.Stdout.Write([]byte{'.'})
	return nil
}

// TestSavingChild is the child of TestKilledWhileSaving. It saves until it is killed.
func TestSavingChild(t *testing.T) {
	dir := os.Getenv("SAVING_CHILD_DIR")
	if dir == "" {
		t.Skip("runs only in a process of its own")
	}
	round, _ := strconv.Atoi(os.Getenv("SAVING_CHILD_ROUND"))
	inf, pf := newSaved(t, dir, false)
	for generation := 1 + round*1000; ; generation++ {
		fill(inf, 300, generation)
		if err := save(stepping{t.Context()}, inf, pf); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnusedFilesAreRemoved: files that no program has written for long, and nothing else.
func TestUnusedFilesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	inf, pf := newSaved(t, dir, false)
	inf.cfg.NewSource = func(string) (source.ListerWatcher[settings], error) { return &answering{list: errors.New("down")}, nil }
	fill(inf, 5, 3)
	if err := save(t.Context(), inf, pf); err != nil { // a usable one
		t.Fatal(err)
	}
	long := time.Now().Add(-14*24*time.Hour - time.Hour)
	old, young := "old-0123456789abcdef.tidings", "young-0123456789abcdef.tidings"
	abandoned := old + ".0123456789.tmp"
	for name, age := range map[string]time.Time{
		filepath.Base(pf.Path): long, old: long, abandoned: long, young: long.Add(2 * time.Hour), "notes.txt": long, "recording.tidings": long,
		old + ".bak": long,
	} {
		path := filepath.Join(dir, name)
		var err error
		if path != pf.Path {
			err = os.WriteFile(path, []byte("x"), 0o600)
		}
		if err := errors.Join(err, os.Chtimes(path, age, age)); err != nil {
			t.Fatal(err)
		}
	}
	directory := "directory-0123456789abcdef.tidings"
	if err := os.Mkdir(filepath.Join(dir, directory), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, directory), long, long); err != nil {
		t.Fatal(err)
	}
	if err := inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	inf.Halt(nil)
	<-inf.done
	left := map[string]bool{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		left[entry.Name()] = true
	}
	if left[old] || left[abandoned] {
		t.Error("a file that nobody has written for long is still there")
	}
	for _, name := range []string{filepath.Base(pf.Path), young, "notes.txt", "recording.tidings", old + ".bak", directory} {
		if !left[name] {
			t.Errorf("%s was removed", name)
		}
	}
}

// TestOldNewsAfterAFile: an object missing from a file was gone at the file's version, so an older
// state does not bring it back.
func TestOldNewsAfterAFile(t *testing.T) {
	both(t, func(t *testing.T, folding bool) {
		dir := t.TempDir()
		inf, pf := newSaved(t, dir, folding)
		fill(inf, 5, 3) // at 3999
		if err := save(t.Context(), inf, pf); err != nil {
			t.Fatal(err)
		}
		next, pf := newSaved(t, dir, folding)
		p, err := next.newTestPart(pf)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		for version, want := range map[string]bool{"3500": false, "4000": true} {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "at-" + version, ResourceVersion: version}}
			next.applyChanges(p, changesOf(object.Delta[settings]{Type: object.Updated, Key: object.KeyOf(o), Object: o}), "4000")
			if _, ok := next.store.Snapshot().Get(object.KeyOf(o)); ok != want {
				t.Errorf("the store has an object at %s: %t", version, ok)
			}
		}
	})
}

// TestRecordsThatDoNotBelong: a file with an object that is not of the collection, or differs from
// its record, is not used at all, and the reason names the object.
func TestRecordsThatDoNotBelong(t *testing.T) {
	good := file.Record{Namespace: "shop", Name: "a", UID: "u", ResourceVersion: "5"}
	encoded := func(change func(*corev1.ConfigMap)) []byte {
		codec, err := codec.New[settings](0)
		if err != nil {
			t.Fatal(err)
		}
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "u", ResourceVersion: "5"}}
		change(o)
		data, err := codec.Append(nil, o)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	same := encoded(func(*corev1.ConfigMap) {})
	for name, tt := range map[string]struct {
		change   func(*file.Record)
		data     []byte
		versions map[string]string
		words    string
		onlyOpen bool // folded objects are not opened before they are read
	}{
		"well":               {data: same},
		"no name":            {change: func(r *file.Record) { r.Name = "" }, data: same, words: "has no name"},
		"another namespace":  {change: func(r *file.Record) { r.Namespace = "other" }, data: same, words: `other/a is not in namespace "shop"`},
		"newer":              {change: func(r *file.Record) { r.ResourceVersion = "8" }, data: same, words: "shop/a is newer than the file"},
		"another name in it": {data: encoded(func(o *corev1.ConfigMap) { o.Name = "b" }), words: "another object", onlyOpen: true},
		"another uid in it":  {data: encoded(func(o *corev1.ConfigMap) { o.UID = "v" }), words: "another object", onlyOpen: true},
		"another version":    {data: encoded(func(o *corev1.ConfigMap) { o.ResourceVersion = "4" }), words: "another object", onlyOpen: true},
		"garbage":            {data: []byte("\xff\xff\xff\xff"), words: "shop/a", onlyOpen: true},
		"no version":         {data: same, versions: map[string]string{"shop": ""}, words: "no resource version"},
		"version zero":       {data: same, versions: map[string]string{"shop": "0"}, words: "no resource version"},
		"other versions":     {data: same, versions: map[string]string{"": "7"}, words: "no resource version"},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, folding bool) {
				if folding && tt.onlyOpen {
					return
				}
				inf, _ := newSaved(t, t.TempDir(), folding)
				pf := inf.files.OfPart("shop")
				header := file.Header{Identity: maps.Clone(pf.Identity), ResourceVersions: tt.versions}
				if header.Identity["cluster"] = "test"; tt.versions == nil {
					header.ResourceVersions = map[string]string{"shop": "7"}
				}
				record := good
				if tt.change != nil {
					tt.change(&record)
				}
				err := file.WriteFile(pf.Path, header, file.Options{}, func(w *file.Writer) error {
					var packer fold.Packer
					record.Object = packer.Pack(tt.data, nil)
					return w.Write(record)
				})
				if err != nil {
					t.Fatal(err)
				}
				l, err := inf.files.Load(t.Context(), pf)
				l.Close()
				switch {
				case tt.words == "":
					if err != nil || l.Version != "7" {
						t.Errorf("at %q: %v", l.Version, err)
					}
				case !errors.Is(err, file.ErrBroken) || !strings.Contains(err.Error(), tt.words) || strings.Contains(err.Error(), "panic"):
					t.Errorf("%v, want an error with %q", err, tt.words)
				}
			})
		})
	}
}

// TestObjectsThatCannotBeEncodedAreNotSaved: a partial collection is useless, so no file is written.
func TestObjectsThatCannotBeEncodedAreNotSaved(t *testing.T) {
	inf, pf := newSaved(t, t.TempDir(), false)
	o := namedSettings(1)
	o.Namespace, o.ResourceVersion, o.Labels = "shop", "5", map[string]string{} // not nil, which no encoding can express
	txn := inf.writer.Begin()
	txn.Replace("", object.Items[settings]{o}, "7", false)
	txn.Commit()
	if err := save(t.Context(), inf, pf); err == nil || !strings.Contains(err.Error(), "shop/1") {
		t.Errorf("%v, want an error that names the object", err)
	}
	if left, err := os.ReadDir(filepath.Dir(pf.Path)); err != nil || len(left) != 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}

// TestHandlerStopsAnInformerThatSaves: the stop waits for the last save, but not for itself.
func TestHandlerStopsAnInformerThatSaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf, _ := newSaved(t, t.TempDir(), false)
		o := namedSettings(1)
		o.ResourceVersion = "5"
		inf.cfg.NewSource = func(string) (source.ListerWatcher[settings], error) { return &answering{items: []settings{o}}, nil }
		asked := 0
		inf.cfg.NoWatchList = true
		inf.cfg.Files.Cluster = func(context.Context) (string, error) {
			if asked++; inf.life.Err() != nil {
				time.Sleep(time.Second)
			}
			return "test", nil
		}
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		stopped := make(chan error, 1)
		_, err := inf.Subscribe(func(object.Delta[settings]) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			err := inf.Stop(ctx)
			if st := inf.Status().Parts[0].File; time.Since(began) != time.Second || st.Saves != 1 {
				t.Errorf("after %v: %+v", time.Since(began), st)
			}
			stopped <- err
		}, HandlerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-stopped; err != nil || asked == 0 {
			t.Error(err)
		}
		<-inf.Done()
	})
}

// TestFileOptionsAreChecked: for example, a key must be long enough.
func TestFileOptionsAreChecked(t *testing.T) {
	long := make([]byte, file.MinKey)
	for words, o := range map[string]saved.Options{
		"": {}, "negative": {Every: -1}, "has 1 bytes": {Key: []byte("k")}, fmt.Sprintf("has %d bytes", file.MinKey-1): {Key: long[1:]}, "no key": {Secrets: true},
	} {
		if err := o.Check(); (err == nil) != (words == "") || err != nil && !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v", words, err)
		}
	}
	for _, o := range []saved.Options{{Key: long}, {Key: long, Secrets: true}, {Every: 1}} {
		if err := o.Check(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestPanicWhileLoading: a panic is a reason not to use the file, unless it comes from asking for the cluster.
func TestPanicWhileLoading(t *testing.T) {
	inf, pf := newSaved(t, t.TempDir(), false)
	fill(inf, 5, 3)
	if err := save(t.Context(), inf, pf); err != nil {
		t.Fatal(err)
	}
	inf.files.Cluster = func(context.Context) (string, error) { panic("oh dear") }
	l, err := inf.files.Load(t.Context(), pf)
	l.Close()
	if _, momentary := errors.AsType[saved.MomentaryError](err); !momentary || !strings.Contains(err.Error(), "oh dear") {
		t.Errorf("%v, want an error with the panic that says nothing about the file", err)
	}
	pf.Identity = nil // writing to it panics
	l, err = inf.files.Load(t.Context(), pf)
	l.Close()
	if !errors.Is(err, file.ErrBroken) || !strings.Contains(err.Error(), "panic") {
		t.Errorf("%v, want an error with the panic", err)
	}
}

// TestFileComesFirstOrNotAtAll: anything in the store is newer than a file, even a single object.
func TestFileComesFirstOrNotAtAll(t *testing.T) {
	both(t, testFileComesFirst)
}

func testFileComesFirst(t *testing.T, folding bool) {
	for _, n := range []int{0, 1, 2} {
		inf, pf := newSaved(t, t.TempDir(), folding)
		fill(inf, 5, 3)
		if err := save(t.Context(), inf, pf); err != nil {
			t.Fatal(err)
		}
		next, _ := newSaved(t, filepath.Dir(pf.Path), folding)
		fill(next, n, 2)
		before := next.store.Snapshot().FoldStats().Bytes
		p, err := next.newTestPart(pf)
		if err != nil {
			t.Fatal(err)
		}
		held, err := p.Resume(t.Context())
		if err != nil || (held.ResourceVersion == "3999") != (n == 0) || (p.fileStatus().Loaded == 5) != (n == 0) {
			t.Errorf("with %d objects in the store: resumed at %q, %+v, %v", n, held.ResourceVersion, p.fileStatus(), err)
		}
		if after := next.store.Snapshot().FoldStats().Bytes; n > 0 && after != before {
			t.Errorf("%d bytes of a file that is not used are counted", after-before)
		}
		if got := next.store.Snapshot().Len(); n > 0 && got != n || n == 0 && got != 5 {
			t.Errorf("with %d objects in the store there are %d in the end", n, got)
		}
	}
}

// TestSaveThatFailsIsNoSave: a failed save is counted, logged, and retried the next time.
func TestSaveThatFailsIsNoSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		dir := filepath.Join(t.TempDir(), "deep", "down")
		inf, _ := newSaved(t, dir, false)
		inf.log = usercode.NewThrottledLog(slog.New(slog.NewTextHandler(&log, nil)))
		o := namedSettings(1)
		o.ResourceVersion = "5"
		inf.cfg.NewSource = func(string) (source.ListerWatcher[settings], error) { return &answering{items: []settings{o}}, nil }
		inf.cfg.Files.Every, inf.cfg.NoWatchList = time.Hour, true
		inf.cfg.Files.Cluster = func(context.Context) (string, error) { return "test", nil }
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p := inf.currentParts()[0]
		inf.files.Cluster = func(context.Context) (string, error) { return "", errors.New("which one is it") }
		inf.files.Save(t.Context(), p)
		if st := p.fileStatus(); st.Failures != 1 || st.Saves != 0 || st.Err == nil || st.Err.Error() != "which one is it" || !strings.Contains(log.String(), "which one is it") {
			t.Errorf("%+v, logged %s", st, log.String())
		}
		inf.files.Cluster = func(context.Context) (string, error) { return "test", nil }
		for range 2 { // the second has nothing new
			inf.files.Save(t.Context(), p)
		}
		if st := p.fileStatus(); st.Failures != 1 || st.Saves != 1 || st.Err != nil || st.SavedObjects != 1 || st.SavedBytes == 0 || !st.SavedAt.Equal(time.Now()) {
			t.Errorf("%+v", st)
		}
		for path, want := range map[string]fs.FileMode{p.file.Path: 0o600, dir: 0o700, filepath.Dir(dir): 0o700} {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s has mode %v, want %v", path, got, want)
			}
		}
		inf.guard.found.Add(1) // a single write to a cached object is enough
		if _, _, err := p.ToSave(); !errors.Is(err, errWrittenTo) {
			t.Errorf("what was written to is saved: %v", err)
		}
		inf.Halt(nil)
		<-inf.done
	})
}

// TestWaitTellsOfTheFile: a wait for sync reports what came from the file, even if nothing else happens.
func TestWaitTellsOfTheFile(t *testing.T) {
	both(t, func(t *testing.T, folding bool) {
		synctest.Test(t, func(t *testing.T) {
			inf, pf := newSaved(t, t.TempDir(), folding)
			fill(inf, 5, 3)
			if err := save(t.Context(), inf, pf); err != nil {
				t.Fatal(err)
			}
			next, _ := newSaved(t, filepath.Dir(pf.Path), folding)
			next.cfg.NewSource = func(string) (source.ListerWatcher[settings], error) {
				return listFunc{&answering{}, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, nil
			}
			next.cfg.NoWatchList = true
			next.cfg.Files.Cluster = func(context.Context) (string, error) {
				time.Sleep(100 * time.Millisecond)
				return "test", nil
			}
			if err := next.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), syncLogAfter/2)
			defer cancel()
			o, err := next.WaitForSync(ctx, false)
			if err != nil || o == nil || !errors.Is(o.Wait, context.DeadlineExceeded) || !strings.Contains(o.Progress, "with 5 objects from a file") {
				t.Errorf("%+v, %v", o, err)
			}
			next.Halt(nil)
			<-next.done
		})
	})
}

// TestFileIsToldInOrder: whatever the number of objects, handlers get each in its own state, once.
func TestFileIsToldInOrder(t *testing.T) {
	both(t, func(t *testing.T, folding bool) {
		for _, n := range []int{1, memory.OpenBatch - 1, memory.OpenBatch, memory.OpenBatch + 1, 2*memory.OpenBatch - 1, 2 * memory.OpenBatch, 4*memory.OpenBatch + 5} {
			synctest.Test(t, func(t *testing.T) {
				inf, pf := newSaved(t, t.TempDir(), folding)
				fill(inf, n, 3)
				if err := save(t.Context(), inf, pf); err != nil {
					t.Fatal(err)
				}
				next, told := newResumed(t, filepath.Dir(pf.Path), folding, listFunc{&answering{}, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, io.Discard)
				if len(*told) != n {
					t.Fatalf("%d notifications of %d objects: %v", len(*told), n, next.Status().Parts[0].File)
				}
				if folding && next.memory.MeanSize() < 200 {
					t.Errorf("an object counts as %v bytes", next.memory.MeanSize())
				}
				for i, d := range *told {
					want := fmt.Sprintf("s-%04d", i)
					if d.Type != object.Added || !d.Initial || d.Key.Name != want || d.Object.Name != want || d.Object.ResourceVersion != strconv.Itoa(3000+i) {
						t.Fatalf("notification %d is %+v", i, d)
					}
				}
			})
		}
	})
}

// newResumed starts an informer with a handler that saves to a directory, and waits until it is idle.
func newResumed(t *testing.T, dir string, folding bool, src source.ListerWatcher[settings], log io.Writer) (*Informer[settings], *[]object.Delta[settings]) {
	t.Helper()
	inf, _ := newSaved(t, dir, folding)
	inf.cfg.NewSource = func(string) (source.ListerWatcher[settings], error) { return src, nil }
	inf.cfg.NoWatchList = true
	inf.log = usercode.NewThrottledLog(slog.New(slog.NewTextHandler(log, nil)))
	var told []object.Delta[settings]
	if _, err := inf.Subscribe(func(d object.Delta[settings]) { told = append(told, d) }, HandlerOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		inf.Halt(nil)
		<-inf.done
	})
	synctest.Wait()
	return inf, &told
}

// breaksLate makes a file at 3999 of objects that changed at 3000 and later. The last one cannot be
// opened; it comes after memory.OpenBatch others.
func breaksLate(t *testing.T) (dir string) {
	t.Helper()
	_, pf := newSaved(t, t.TempDir(), true)
	identity := maps.Clone(pf.Identity)
	identity["cluster"] = "test"
	err := file.WriteFile(pf.Path, file.Header{Identity: identity, ResourceVersions: map[string]string{"": "3999"}}, file.Options{}, func(w *file.Writer) error {
		var packer fold.Packer
		for i := range memory.OpenBatch + 1 {
			o := namedSettings(i)
			o.ResourceVersion = strconv.Itoa(3000 + i)
			data, err := settingsCodec(t).Append(nil, o)
			if i == memory.OpenBatch {
				data = []byte("\xff\xff\xff\xff")
			}
			if err := errors.Join(err, w.Write(file.Record{Name: o.Name, UID: string(o.UID), ResourceVersion: o.ResourceVersion, Object: packer.Pack(data, nil)})); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(pf.Path)
}

// TestFileThatBreaksLate: objects sent to handlers before the file turned out broken stay until a
// list says otherwise, even one of another history.
func TestFileThatBreaksLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		older := namedSettings(7)
		older.ResourceVersion = "5"
		var log strings.Builder
		next, told := newResumed(t, breaksLate(t), true, &answering{items: []settings{older}}, &log)
		time.Sleep(time.Minute) // until the server is known to be behind for good
		synctest.Wait()
		for _, words := range []string{"the saved objects cannot be used", "probably restored from a backup"} {
			if !strings.Contains(log.String(), words) {
				t.Errorf("logged %s without %q", log.String(), words)
			}
		}
		if st := next.Status(); st.Parts[0].File.Discarded == nil || st.Objects != 1 || st.Parts[0].File.Loaded != 0 {
			t.Errorf("%d objects, file %+v", st.Objects, st.Parts[0].File)
		}
		if o, ok := next.store.Snapshot().Get(keyOf(7)); !ok || o.ResourceVersion != "5" {
			t.Errorf("the store has %v, want what was listed", o)
		}
		added, deleted := 0, 0
		for _, d := range *told {
			switch d.Type {
			case object.Added:
				added++
			case object.Deleted:
				deleted++
			}
		}
		if added != memory.OpenBatch || deleted != memory.OpenBatch-1 {
			t.Errorf("%d objects added and %d deleted, want %d and one less", added, deleted, memory.OpenBatch)
		}
	})
}

// TestNoOlderListAfterLateBreak: after a file broke late, a replica of the server that lags behind
// what handlers were notified of is not used: no object goes back, and the server is not reported
// as restored.
func TestNoOlderListAfterLateBreak(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, now := namedSettings(7), namedSettings(7)
		before.ResourceVersion, now.ResourceVersion = "2000", "3007"
		var asked []string
		list := func(_ context.Context, opts source.ListOptions[settings], each func(settings) error) (source.ListResult, error) {
			asked = append(asked, opts.ResourceVersion)
			o, version := now, "5000"
			if !object.OlderResourceVersion("3100", opts.ResourceVersion) { // the replica has got that far
				o, version = before, "3100"
			}
			return source.ListResult{ResourceVersion: version}, each(o)
		}
		var log strings.Builder
		next, told := newResumed(t, breaksLate(t), true, source.Funcs[settings]{ListFunc: list, WatchFunc: (&answering{}).Watch}, &log)
		time.Sleep(time.Minute)
		synctest.Wait()
		if newest := strconv.Itoa(3000 + memory.OpenBatch - 1); len(asked) == 0 || asked[0] != newest {
			t.Errorf("asked for lists at %q, the first of which should be as new as %s", asked, newest)
		}
		if o, ok := next.store.Snapshot().Get(keyOf(7)); !next.HasSynced() || next.store.Snapshot().Len() != 1 || !ok || o.ResourceVersion != "3007" {
			t.Errorf("synced %t, %d objects, %v", next.HasSynced(), next.store.Snapshot().Len(), o)
		}
		for _, d := range *told {
			if d.Key == keyOf(7) && d.Type != object.Added {
				t.Errorf("told of %+v", d)
			}
		}
		if strings.Contains(log.String(), "restored") {
			t.Error(log.String())
		}
	})
}

// TestFileGivesWay to anything newer: a removed part, previous objects of its namespace, and objects from another part.
func TestFileGivesWay(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(inf *Informer[settings], p *part[settings])
		want   bool
	}{
		"nothing":             {func(*Informer[settings], *part[settings]) {}, true},
		"removed":             {func(_ *Informer[settings], p *part[settings]) { p.removed = true }, false},
		"initial version":     {func(_ *Informer[settings], p *part[settings]) { p.beginning.floor = "1" }, false},
		"an object":           {func(inf *Informer[settings], _ *part[settings]) { fill(inf, 1, 2) }, false},
		"removed later":       {func(inf *Informer[settings], _ *part[settings]) { inf.newestRemoved = "4000" }, false},
		"removed at the same": {func(inf *Informer[settings], _ *part[settings]) { inf.newestRemoved = "3999" }, true},
		"removed earlier":     {func(inf *Informer[settings], _ *part[settings]) { inf.newestRemoved = "3998" }, true},
	} {
		inf, pf := newSaved(t, t.TempDir(), false)
		p, err := inf.newTestPart(pf)
		if err != nil {
			t.Fatal(err)
		}
		tt.change(inf, p)
		if got := inf.applies(p, &saved.Loaded[settings]{Version: "3999"}); got != tt.want {
			t.Errorf("%s: the file applies: %t", name, got)
		}
	}
}

// TestContradiction: a first list shows that the file is of another history if it has an older
// state of an object than the file, but is not itself older than that.
func TestContradiction(t *testing.T) {
	for _, tt := range []struct {
		held, listed, version string
		listedBefore, want    bool
	}{
		{"50", "50", "100", false, false},
		{"50", "60", "100", false, false},
		{"50", "40", "100", false, true},
		{"50", "40", "50", false, true},
		{"50", "40", "49", false, false},
		{"50", "40", "100", true, false},
		{"", "40", "100", false, false},
	} {
		inf, pf := newSaved(t, t.TempDir(), false)
		p, err := inf.newTestPart(pf)
		if err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		inf.log = usercode.NewThrottledLog(slog.New(slog.NewTextHandler(&log, nil)))
		p.beginning.done.Store(tt.listedBefore)
		held, listed := namedSettings(1), namedSettings(1)
		held.ResourceVersion, listed.ResourceVersion = tt.held, tt.listed
		if tt.held != "" {
			txn := inf.writer.Begin()
			txn.Set(keyOf(1), held)
			txn.Commit()
		}
		if got := p.contradicts(object.Items[settings]{namedSettings(0), listed}, tt.version); got != tt.want {
			t.Errorf("%+v: contradicts %t", tt, got)
		}
		if said := strings.Contains(log.String(), "has an older state of 1 than was seen before"); said != tt.want {
			t.Errorf("%+v: logged %s", tt, log.String())
		}
		p.file = &saved.File{}
		if p.contradicts(object.Items[settings]{listed}, tt.version) {
			t.Errorf("%+v: contradicts no file", tt)
		}
	}
}

// TestFileTellsTheRest: objects that handlers know and the store has lost since are sent to them
// again once everything is loaded.
func TestFileTellsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		if err := next.openLoaded(t.Context(), p, &l); err != nil {
			t.Fatal(err)
		}
		lost := object.Key{Namespace: "shop", Name: "s-0002"}
		txn := next.writer.Begin()
		txn.Remove(lost)
		txn.Commit()
		if !next.applyFile(p, &l) {
			t.Fatal("the file was not used")
		}
		var told []object.Delta[settings]
		for len(told) < 6 {
			batch, err := s.queue.Pop(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for d := range batch.All() {
				told = append(told, d)
			}
		}
		if last := told[5]; last.Type != object.Added || last.Key != lost || !last.Initial || last.Object == nil {
			t.Errorf("told of %+v in the end", last)
		}
		next.Halt(nil)
		<-next.done
	})
}

// TestFileThatOpensToTooMuch: objects that anybody wrote may be packed a thousand times smaller
// than they are. Where all would be opened, such a file is refused before they take far more memory
// than its length justifies. With a budget they stay packed.
func TestFileThatOpensToTooMuch(t *testing.T) {
	both(t, func(t *testing.T, folding bool) {
		inf, pf := newSaved(t, t.TempDir(), folding)
		codec, err := codec.NewAs[settings](inf.objectType(), 0)
		if err != nil {
			t.Fatal(err)
		}
		identity := maps.Clone(pf.Identity)
		identity["cluster"] = "test"
		header := file.Header{Identity: identity, ResourceVersions: map[string]string{"": "7"}}
		large := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "u", ResourceVersion: "5"},
			Data:       map[string]string{"zeros": strings.Repeat("0", 16<<20)},
		}
		encoded, err := codec.Append(nil, large)
		if err != nil {
			t.Fatal(err)
		}
		var packer fold.Packer
		record := file.Record{Namespace: "shop", Name: "a", UID: "u", ResourceVersion: "5", Object: packer.Pack(encoded, nil)}
		if err := file.WriteFile(pf.Path, header, file.Options{}, func(w *file.Writer) error {
			for range 24 {
				if err := w.Write(record); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		l, err := inf.files.Load(t.Context(), pf)
		l.Close()
		runtime.ReadMemStats(&after)
		if errors.Is(err, file.ErrBroken) == folding {
			t.Errorf("got %v", err)
		}
		info, _ := os.Stat(pf.Path)
		if took := after.TotalAlloc - before.TotalAlloc; took > 3*(64<<20) {
			t.Errorf("%d bytes took %d", info.Size(), took)
		}
	})
}
