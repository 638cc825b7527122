package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/source"
	"github.com/tidings/tidings/tidingstest/recorder"
)

// scoped are sources of config maps that a test changes: the lists and watches of each namespace
// have their own versions.
type scoped struct {
	items   []settings
	version map[string]string // by namespace
	// behind is called after the last object of a list.
	behind func(ctx context.Context) error
}

func (s *scoped) of(namespace string) (source.ListerWatcher[settings], error) {
	list := func(ctx context.Context, _ source.ListOptions[settings], each func(settings) error) (source.ListResult, error) {
		version := s.version[namespace]
		for _, o := range s.items {
			if namespace != "" && o.Namespace != namespace {
				continue
			}
			if err := each(o); err != nil {
				return source.ListResult{}, err
			}
		}
		return source.ListResult{ResourceVersion: version}, s.behind(ctx)
	}
	watch := func(ctx context.Context, _ source.WatchOptions[settings]) (source.Stream[settings], error) {
		return quiet{ctx}, nil
	}
	return source.Funcs[settings]{ListFunc: list, WatchFunc: watch}, nil
}

// setting returns a config map of the namespace at the version, named after the version that it was created at.
func setting(namespace string, created, version int) settings {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(created), UID: "u", ResourceVersion: fmt.Sprint(version)},
		Data:       map[string]string{"text": strings.Repeat("some text ", 50)},
	}
}

// TestRestoreWhileNamespacesChange restores the server from a backup and lets another part take
// over the store's objects: the lists replace the store's state, even if only missing objects show
// the restore.
func TestRestoreWhileNamespacesChange(t *testing.T) {
	type versions = map[string]string
	for name, tt := range map[string]struct {
		from, to        []string
		before, after   versions
		unfinished      bool
		backup, created []settings
	}{
		"in the middle of a first list": {
			from: []string{""}, to: []string{"a", "b"}, before: versions{"": "900"}, after: versions{"a": "700", "b": "700"}, unfinished: true,
			backup: []settings{setting("a", 1, 1), setting("b", 2, 2)}, created: []settings{setting("a", 800, 800), setting("b", 850, 850)},
		},
		"where one namespace was further than the other": {
			from: []string{"a", "b"}, to: []string{""}, before: versions{"a": "900", "b": "500"}, after: versions{"": "700"},
			backup: []settings{setting("a", 1, 1), setting("b", 2, 2)}, created: []settings{setting("a", 800, 800)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &scoped{items: append(tt.backup, tt.created...), version: tt.before}
				inf := New(Config[settings]{
					Name: "configmaps", Namespaces: tt.from, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
					Memory: newBudget(1), NewSource: src.of,
				})
				src.behind = func(ctx context.Context) error {
					if tt.unfinished {
						<-ctx.Done()
					}
					return ctx.Err()
				}
				var rec recorder.Recorder[settings]
				rec.AllowRewrites()
				if _, err := inf.Subscribe(rec.Delta, HandlerOptions{}); err != nil {
					t.Fatal(err)
				}
				for i := range 20 { // so that the budget is checked
					src.items = append(src.items, setting("c", i, i+1))
				}
				startIt(t, inf)
				for _, o := range tt.created {
					if rec.State()[object.KeyOf(o)] == nil {
						t.Fatalf("the handler was not told of %s", o.Name)
					}
				}
				src.items, src.version, src.behind = tt.backup, tt.after, func(context.Context) error { return nil }
				if err := inf.SetNamespaces(t.Context(), tt.to); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if snap := inf.store.Snapshot(); !inf.HasSynced() || snap.Len() != len(tt.backup) || len(rec.State()) != len(tt.backup) || rec.Err() != nil {
					t.Errorf("synced %t, %d objects, %d told of, %v; want %d", inf.HasSynced(), snap.Len(), len(rec.State()), rec.Err(), len(tt.backup))
				}
			})
		})
	}
}

// TestVersionsOfOtherNamespacesProveNothing: the list of an added namespace may be older than those
// of the others. The list of a part that takes over from another may not.
func TestVersionsOfOtherNamespacesProveNothing(t *testing.T) {
	for _, tt := range []struct {
		from, over, to []string // over is not listed before it is replaced
		restored       bool
	}{
		{from: []string{"a"}, to: []string{"a", "b"}}, {from: []string{"a", "c"}, to: []string{"c", "b"}},
		{from: []string{"a"}, to: []string{""}, restored: true}, {from: []string{""}, to: []string{"b"}, restored: true},
		{from: []string{"a"}, over: []string{""}, to: []string{"b"}, restored: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			src := &scoped{version: map[string]string{"a": "900", "c": "900", "b": "700"}, behind: func(context.Context) error { return nil }}
			src.version[""] = map[bool]string{true: "900", false: "700"}[tt.from[0] == ""]
			inf := New(Config[settings]{
				Name: "configmaps", Namespaces: tt.from, NewSource: src.of,
				Options: Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), NoWatchList: true},
			})
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if tt.over != nil {
				src.behind = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
				if err := inf.SetNamespaces(t.Context(), tt.over); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				src.behind = func(context.Context) error { return nil }
			}
			if err := inf.SetNamespaces(t.Context(), tt.to); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			inf.Halt(nil)
			<-inf.done
			if told := strings.Contains(log.String(), "probably restored from a backup"); told != tt.restored {
				t.Errorf("from %q to %q: restored %t, want %t: %s", tt.from, tt.to, told, tt.restored, log.String())
			}
		})
	}
}

// TestFirstListThatBreaksOffIsFollowedByNoneFromBefore: handlers got a part of it, and a replica of
// the server that lags behind answers next.
func TestFirstListThatBreaksOffIsFollowedByNoneFromBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &scoped{version: map[string]string{"": "900"}}
		inf := New(Config[settings]{
			Name: "configmaps", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
			Memory: newBudget(1), NewSource: src.of,
		})
		var rec recorder.Recorder[settings]
		if _, err := inf.Subscribe(rec.Delta, HandlerOptions{}); err != nil {
			t.Fatal(err)
		}
		for i := range 600 { // more than arrive together
			src.items = append(src.items, setting("a", i, 200+i))
		}
		now := src.items
		lists := 0
		src.behind = func(context.Context) error {
			lists++
			switch lists {
			case 1: // at 900; the next one is older
				src.version[""], src.items = "150", []settings{setting("a", 0, 100)}
				return errors.New("cut off")
			case 2:
				src.version[""], src.items = "900", now
			}
			return nil
		}
		startIt(t, inf)
		time.Sleep(time.Minute)
		synctest.Wait()
		if lists < 3 || !inf.HasSynced() || rec.Err() != nil || len(rec.State()) != len(now) {
			t.Errorf("%d lists, synced %t, %d objects told of: %v", lists, inf.HasSynced(), len(rec.State()), rec.Err())
		}
		inf.Halt(nil)
		<-inf.done
	})
}

// TestRemovalIsForgotten after an hour, whether or not another namespace is removed since. Until
// then the namespace's lists are no older than its removal.
func TestRemovalIsForgotten(t *testing.T) {
	for _, tt := range []struct {
		after  time.Duration
		others bool // another namespace is added and removed at the end
		want   string
	}{
		{removedTTL, false, "900"}, {removedTTL, true, "900"}, {removedTTL + 1, false, ""}, {removedTTL + 1, true, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			src := &scoped{version: map[string]string{"a": "900", "b": "100", "c": "100"}, behind: func(context.Context) error { return nil }}
			var asked []string // of a
			inf := New(Config[settings]{
				Name: "configmaps", Namespaces: []string{"a", "b"}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true},
				NewSource: func(namespace string) (source.ListerWatcher[settings], error) {
					of, err := src.of(namespace)
					list := func(ctx context.Context, opts source.ListOptions[settings], each func(settings) error) (source.ListResult, error) {
						if namespace == "a" {
							asked = append(asked, opts.ResourceVersion)
						}
						return of.List(ctx, opts, each)
					}
					return source.Funcs[settings]{ListFunc: list, WatchFunc: of.Watch}, err
				},
			})
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			set := func(namespaces ...string) {
				if err := inf.SetNamespaces(t.Context(), namespaces); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			synctest.Wait()
			set("b")
			time.Sleep(tt.after)
			kept := 1
			if tt.others {
				set("b", "c")
				set("b")
				kept = 2
			}
			if tt.want == "" {
				kept--
			}
			set("a", "b")
			if len(asked) != 2 || asked[1] != tt.want || len(inf.removals) != kept {
				t.Errorf("%v later: asked for lists at %q, the second of which should be at %q; %d namespaces are remembered, want %d", tt.after, asked, tt.want, len(inf.removals), kept)
			}
			inf.Halt(nil)
			<-inf.done
		})
	}
}
