package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
)

// rejecting leaves out config maps with the label out, and notes what it kept.
func rejecting(o settings) (settings, error) {
	if o.Labels["out"] != "" {
		o.UID, o.ResourceVersion = "", "" // it is the transform's, which may also spoil it
		return nil, nil
	}
	o.Data = map[string]string{"kept": o.Labels["n"]}
	return o, nil
}

// labeled is a config map at a version, which rejecting leaves out if out is set.
func labeled(i, version int, out bool) settings {
	o := namedSettings(i)
	o.ResourceVersion, o.Labels = fmt.Sprint(version), map[string]string{"n": fmt.Sprint(version)}
	if out {
		o.Labels["out"] = "yes"
	}
	return o
}

// leaving is a source of two lists, each followed by a watch. The first watch brings events and then expires.
type leaving struct {
	lists, watches int
	first, then    []settings
	events         []source.Event[settings]
}

func (l *leaving) List(_ context.Context, _ source.ListOptions[settings], each func(settings) error) (source.ListResult, error) {
	l.lists++
	items, version := l.first, "10"
	if l.lists > 1 {
		items, version = l.then, "30"
	}
	for _, o := range items {
		if err := each(o.DeepCopy()); err != nil {
			return source.ListResult{}, err
		}
	}
	return source.ListResult{ResourceVersion: version}, nil
}

func (l *leaving) Watch(ctx context.Context, _ source.WatchOptions[settings]) (source.Stream[settings], error) {
	if l.watches++; l.watches > 1 {
		return quiet{ctx}, nil
	}
	return &leavingStream{quiet{ctx}, l.events}, nil
}

type leavingStream struct {
	quiet
	events []source.Event[settings]
}

func (s *leavingStream) Next(buf []source.Event[settings]) ([]source.Event[settings], error) {
	if len(s.events) == 0 {
		select {
		case <-time.After(time.Minute):
			return buf, apierrors.NewResourceExpired("gone")
		case <-s.ctx.Done():
			return buf, io.EOF
		}
	}
	ev := s.events[0]
	s.events = s.events[1:]
	return append(buf, ev), nil
}

func eventOf(t source.EventType, o settings) source.Event[settings] {
	return source.Event[settings]{Type: t, Object: o, ResourceVersion: o.ResourceVersion}
}

// TestTransformLeavesOut objects: in lists, changes and lists after that, whatever the budget. Nothing is logged.
func TestTransformLeavesOut(t *testing.T) {
	for _, budget := range []int64{0, 1, 1 << 30} {
		t.Run(fmt.Sprint("budget ", budget), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &leaving{
					first: []settings{labeled(0, 5, false), labeled(1, 5, true), labeled(2, 5, false), labeled(3, 5, false)},
					events: []source.Event[settings]{
						eventOf(source.Modified, labeled(0, 11, true)),  // leaves
						eventOf(source.Modified, labeled(1, 12, false)), // comes
						eventOf(source.Added, labeled(4, 13, true)),     // is never seen
						eventOf(source.Modified, labeled(0, 14, true)),  // is still out
						eventOf(source.Deleted, labeled(2, 15, true)),   // its last state is out
						eventOf(source.Modified, labeled(0, 5, false)),  // a repeated state
						eventOf(source.Deleted, labeled(4, 16, true)),
					},
					then: []settings{labeled(0, 14, true), labeled(1, 12, false), labeled(3, 20, true), labeled(5, 21, false)},
				}
				var log bytes.Buffer
				cfg := Config[settings]{
					Name: "configmaps", Namespaces: []string{""}, NewSource: func(string) (source.ListerWatcher[settings], error) { return src, nil },
					Options: Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), NoWatchList: true},
				}
				if budget > 0 {
					cfg.Memory = newBudget(budget)
				}
				inf := New(cfg)
				if err := inf.SetTransform(rejecting); err != nil {
					t.Fatal(err)
				}
				var got []string
				if _, err := inf.Subscribe(func(d object.Delta[settings]) {
					got = append(got, fmt.Sprintf("%v %s@%s %s", d.Type, d.Key, d.Object.ResourceVersion, d.Object.Data["kept"]))
				}, HandlerOptions{Name: "h"}); err != nil {
					t.Fatal(err)
				}
				if err := inf.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				defer func() { inf.Halt(nil); <-inf.done }()
				synctest.Wait()
				wantLeftOut(t, inf, 1, "1", "3") // 0 is out, 4 was; 2 is gone
				if p := inf.currentParts()[0]; !p.transform.leftOut.Contains()(keyOf(0)) ||
					p.transform.leftOut.Contains()(keyOf(4)) {
					t.Error("it is not known which are left out")
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if src.lists != 2 {
					t.Fatalf("%d lists", src.lists)
				}
				wantLeftOut(t, inf, 2, "1", "5")
				slices.Sort(got[:3]) // the order of a list does not matter
				want := []string{
					"Added 0@5 5", "Added 2@5 5", "Added 3@5 5",
					"Deleted 0@5 5", "Added 1@12 12", "Deleted 2@5 5", "Deleted 3@5 5", "Added 5@21 21",
				}
				if strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("the handler got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				if log.Len() > 0 || inf.Status().TransformErrors > 0 {
					t.Errorf("%d errors, and logged:\n%s", inf.Status().TransformErrors, &log)
				}
			})
		})
	}
}

func wantLeftOut(t *testing.T, inf *Informer[settings], out int, names ...string) {
	t.Helper()
	var got []string
	for key := range inf.store.Snapshot().All() {
		got = append(got, key.Name)
	}
	if !slices.Equal(got, names) || inf.Status().LeftOut != out {
		t.Errorf("the store has %v, and %d objects are left out; want %v and %d", got, inf.Status().LeftOut, names, out)
	}
}

// TestWatchListLeavesOut objects that change while the initial events come.
func TestWatchListLeavesOut(t *testing.T) {
	for _, budget := range []int64{0, 1, 1 << 30} {
		synctest.Test(t, func(t *testing.T) {
			src := &streaming{events: []source.Event[settings]{
				eventOf(source.Added, labeled(0, 1, false)), eventOf(source.Added, labeled(1, 2, true)), eventOf(source.Added, labeled(2, 3, false)),
				eventOf(source.Modified, labeled(0, 4, true)), eventOf(source.Added, labeled(3, 5, true)), eventOf(source.Added, labeled(4, 6, false)),
				eventOf(source.Modified, labeled(4, 7, false)), eventOf(source.Modified, labeled(3, 8, false)), eventOf(source.Deleted, labeled(2, 9, false)),
				{Type: source.Bookmark, ResourceVersion: "9", InitialEventsEnd: true},
			}}
			cfg := Config[settings]{
				Name: "configmaps", Namespaces: []string{""}, NewSource: func(string) (source.ListerWatcher[settings], error) { return src, nil },
				Options: Options{Logger: slog.New(slog.DiscardHandler)},
			}
			if budget > 0 {
				cfg.Memory = newBudget(budget)
			}
			inf := New(cfg)
			if err := inf.SetTransform(rejecting); err != nil {
				t.Fatal(err)
			}
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer func() { inf.Halt(nil); <-inf.done }()
			synctest.Wait()
			wantLeftOut(t, inf, 2, "3", "4")
			for key, o := range inf.store.Snapshot().All() {
				if want := map[string]string{"3": "8", "4": "7"}[key.Name]; o.Data["kept"] != want {
					t.Errorf("budget %d: %s at version %s, want %s", budget, key, o.Data["kept"], want)
				}
			}
		})
	}
}

// streaming is a source whose first watch brings events.
type streaming struct {
	answering
	events []source.Event[settings]
}

func (s *streaming) Watch(ctx context.Context, _ source.WatchOptions[settings]) (source.Stream[settings], error) {
	events := s.events
	s.events = nil
	return &eventfulStream{quiet{ctx}, events}, nil
}

// TestAuditOfLeftOut objects: they are not missing.
func TestAuditOfLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &eventful{version: "10", answering: answering{items: []settings{labeled(0, 5, true), labeled(1, 5, false)}}}
		inf := New(Config[settings]{
			Name: "configmaps", Namespaces: []string{""}, NewSource: func(string) (source.ListerWatcher[settings], error) { return src, nil },
			Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
		})
		if err := inf.SetTransform(func(o settings) (settings, error) { return rejecting(o.DeepCopy()) }); err != nil {
			t.Fatal(err)
		}
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { inf.Halt(nil); <-inf.done }()
		synctest.Wait()
		p := inf.currentParts()[0]
		if found, err := p.audit.compare(); err != nil || found.objects() != 0 {
			t.Errorf("%v, %v", found, err)
		}
		src.items = append(src.items, labeled(2, 5, false))
		if found, err := p.audit.compare(); err != nil || found.Missing != 1 {
			t.Errorf("%v, %v where one is missing", found, err)
		}
	})
}
