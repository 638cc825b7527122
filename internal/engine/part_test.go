package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// TestTransformKeepsTheIdentity has transforms that take away or change one part of what tells objects apart.
func TestTransformKeepsTheIdentity(t *testing.T) {
	for name, change := range map[string]func(settings){
		"namespace": func(o settings) { o.Namespace = "other" }, "name": func(o settings) { o.Name = "" },
		"uid": func(o settings) { o.UID = "" }, "version": func(o settings) { o.ResourceVersion = "9" }, "": func(settings) {},
	} {
		inf := New(Config[settings]{Name: "configmaps", Options: Options{Logger: slog.New(slog.DiscardHandler)}})
		p := &part[settings]{inf: inf, transform: func(o settings) (settings, error) {
			change(o)
			o.Data = map[string]string{"transformed": "yes"}
			return o, nil
		}}
		out := p.transformed(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x", UID: "u", ResourceVersion: "1"}})
		if out.Namespace != "shop" || out.Name != "x" || out.UID != "u" || out.ResourceVersion != "1" || out.Data["transformed"] != "yes" {
			t.Errorf("%s: %+v", name, out)
		}
		if n := inf.transformErrors.Load(); n > 1 || (n == 1) != (name != "") {
			t.Errorf("%s: %d errors counted", name, n)
		}
	}
}

// answering is a source of config maps whose answers a test sets.
type answering struct {
	items      []settings
	list, open error
}

func (a *answering) List(_ context.Context, _ source.ListOptions[settings], each func(settings) error) (source.ListResult, error) {
	if a.list != nil {
		return source.ListResult{}, a.list
	}
	for _, o := range a.items {
		if err := each(o); err != nil {
			return source.ListResult{}, err
		}
	}
	return source.ListResult{ResourceVersion: "10"}, nil
}

func (a *answering) Watch(ctx context.Context, _ source.WatchOptions[settings]) (source.Stream[settings], error) {
	if a.open != nil {
		return nil, a.open
	}
	return quiet{ctx}, nil
}

// quiet is a watch on which nothing comes.
type quiet struct{ ctx context.Context }

func (q quiet) Next(buf []source.Event[settings]) ([]source.Event[settings], error) {
	<-q.ctx.Done()
	return buf, io.EOF
}

func (q quiet) Close() error { return nil }

// startOf starts an informer of one namespace with a source.
func startOf(t *testing.T, src source.ListerWatcher[settings]) *Informer[settings] {
	t.Helper()
	inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
		NewSource: func(string) (source.ListerWatcher[settings], error) { return src, nil }})
	if err := inf.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		inf.Halt(nil)
		<-inf.done
	})
	return inf
}

// TestListOvercomesItsProblem: between a list and the reflector's next status, the status shows no problem that the list put an end to,
// but what is wrong with the watch.
func TestListOvercomesItsProblem(t *testing.T) {
	for name, tt := range map[string]struct {
		src      answering
		overcome bool
	}{
		"of the list":  {answering{list: errors.New("no list")}, true},
		"of the watch": {answering{open: errors.New("no watch")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf := startOf(t, &tt.src)
				synctest.Wait()
				p := inf.currentParts()[0]
				if st := p.reflectorStatus(); st.Problem == nil || st.Failures == 0 || (st.Problem.Phase == reflector.Watching) == tt.overcome {
					t.Fatalf("problem %v, %d failures", st.Problem, st.Failures)
				}
				p.noteOvercome()
				if st := p.reflectorStatus(); (st.Problem == nil) != tt.overcome || (st.Failures == 0) != tt.overcome {
					t.Errorf("problem %v and %d failures after a list", st.Problem, st.Failures)
				}
			})
		})
	}
}

// TestCallersAreForgotten: nothing is kept of goroutines that have ended.
func TestCallersAreForgotten(t *testing.T) {
	count := func() (n int) {
		callers.Range(func(any, any) bool { n++; return true })
		return n
	}
	synctest.Test(t, func(t *testing.T) {
		before := count()
		inf := startOf(t, &answering{})
		if _, err := inf.Subscribe(func(object.Delta[settings]) {}, HandlerOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := count() - before; n != 2 { // the part's and the handler's
			t.Errorf("%d goroutines call the user's code, want 2", n)
		}
		inf.Halt(nil)
		<-inf.done
		if n := count() - before; n != 0 {
			t.Errorf("%d goroutines are remembered", n)
		}
	})
}

// TestLateHandlerOfOneObject adds handlers when there are no objects, and one.
func TestLateHandlerOfOneObject(t *testing.T) {
	for n := range 3 {
		synctest.Test(t, func(t *testing.T) {
			src := &answering{}
			for i := range n {
				o := namedSettings(i)
				o.ResourceVersion = "5"
				src.items = append(src.items, o)
			}
			inf := startOf(t, src)
			synctest.Wait()
			var notes []object.Delta[settings]
			s, err := inf.Subscribe(func(d object.Delta[settings]) { notes = append(notes, d) }, HandlerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if len(notes) != n || !closed(s.Synced()) {
				t.Errorf("%d notifications of %d objects, synced %t", len(notes), n, closed(s.Synced()))
			}
			for _, d := range notes {
				if d.Type != object.Added || !d.Initial {
					t.Errorf("%+v, want what is there", d)
				}
			}
		})
	}
}
