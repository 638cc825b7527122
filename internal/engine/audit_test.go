package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tidings/tidings/object"
	"github.com/tidings/tidings/reflector"
	"github.com/tidings/tidings/source"
)

// TestComparison compares a store with a server that differs in every way, and with objects that cannot be decoded.
func TestComparison(t *testing.T) {
	inf, _ := newSaved(t, t.TempDir(), false)
	fill(inf, 40, 1)
	snap := inf.store.Snapshot()
	name := func(i int) object.Key { return object.Key{Namespace: "shop", Name: fmt.Sprintf("s-%04d", i)} }
	c := newComparison(snap, "", []reflector.Skipped{{Key: name(0)}, {Key: name(1)}, {Key: name(99)}})
	c.found = &DivergedError{ResourceVersion: "1999"}
	list := func(i int, change func(o *corev1.ConfigMap)) {
		o := &corev1.ConfigMap{}
		if held, ok := snap.Get(name(i)); ok {
			o = held.DeepCopy()
		}
		o.Namespace, o.Name = name(i).Namespace, name(i).Name
		change(o)
		c.listed(o)
	}
	for i := range 30 { // 30 and more are not listed
		list(i, func(o *corev1.ConfigMap) {
			switch {
			case i == 0: // skipped
				o.ResourceVersion = "1500"
			case i >= 2 && i < 4:
				o.ResourceVersion = "1500"
			case i == 4:
				o.UID = "other"
			}
		})
	}
	list(50, func(*corev1.ConfigMap) {})
	list(99, func(*corev1.ConfigMap) {}) // skipped
	c.finish()
	if c.found.Missing != 1 || c.found.Outdated != 3 || c.found.Extra != 10 || c.found.objects() != 14 {
		t.Errorf("found %+v, want 1 missing, 3 outdated, 10 extra", c.found)
	}
	if len(c.found.First) != mostNamed || c.found.First[0] != name(2) || c.found.First[3] != name(50) {
		t.Errorf("named %v", c.found.First)
	}
	want := "an audit found that the store differs from the server at resource version 1999: 1 objects are missing, 10 should not be there, " +
		"3 are of another version, such as " + fmt.Sprint(c.found.First)
	if got := c.found.Error(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAuditNotes counts what audits find.
func TestAuditNotes(t *testing.T) {
	var a auditor[settings]
	a.note(&DivergedError{}, nil)
	a.note(&DivergedError{Missing: 2, Extra: 1, Outdated: 4}, nil)
	a.note(nil, errOtherVersion)
	st := a.snapshot()
	if st.Completed != 2 || st.Inconclusive != 1 || st.Differences != 7 || st.Heals != 1 || st.Err != errOtherVersion || st.LastCompleted.IsZero() {
		t.Errorf("status %+v", st)
	}
	a.note(&DivergedError{}, nil)
	if st := a.snapshot(); st.Err != nil || st.Completed != 3 {
		t.Errorf("status %+v after one that compared", st)
	}
}

// panicking is a source that panics during an audit.
type panicking struct{ answering }

func (p *panicking) ListMetadata(context.Context, source.ListOptions[*metav1.PartialObjectMetadata], func(*metav1.PartialObjectMetadata) error) (source.ListResult, error) {
	panic("oh")
}

// TestAuditOfASourceThatPanics: such an audit is inconclusive, and the error says why.
func TestAuditOfASourceThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := startOf(t, &panicking{})
		synctest.Wait()
		a := &inf.currentParts()[0].audit
		a.audit()
		if st := a.snapshot(); st.Inconclusive != 1 || st.Completed != 0 || st.Err == nil || !strings.Contains(st.Err.Error(), "panicked: oh") {
			t.Errorf("status %+v", st)
		}
	})
}

// pages is a source that lists metadata in pages.
type pages struct {
	answering
	asked []source.ListOptions[*metav1.PartialObjectMetadata]
	next  func(n int) (result source.ListResult, items []string)
	fails int // the page that fails
}

func (p *pages) ListMetadata(_ context.Context, opts source.ListOptions[*metav1.PartialObjectMetadata], each func(*metav1.PartialObjectMetadata) error) (source.ListResult, error) {
	p.asked = append(p.asked, opts)
	if len(p.asked) == p.fails {
		return source.ListResult{}, errors.New("no such page")
	}
	result, items := p.next(len(p.asked))
	for _, name := range items {
		if err := each(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "5"}}); err != nil {
			return result, err
		}
	}
	return result, nil
}

// TestAuditReadsPages reads all pages at one version, and stops on errors and repeated tokens.
func TestAuditReadsPages(t *testing.T) {
	for name, tt := range map[string]struct {
		next  func(n int) (source.ListResult, []string)
		asked int
		words string // part of the error
	}{
		"three pages": {func(n int) (source.ListResult, []string) {
			return source.ListResult{ResourceVersion: "10", Continue: []string{"", "b", "c", ""}[n]}, []string{fmt.Sprint(n - 1)}
		}, 3, ""},
		"a token that repeats": {func(int) (source.ListResult, []string) {
			return source.ListResult{ResourceVersion: "10", Continue: "b"}, nil
		}, 2, "repeats"},
		"tokens that go round in circles": {func(n int) (source.ListResult, []string) {
			return source.ListResult{ResourceVersion: "10", Continue: string("abc"[n%3])}, nil
		}, 4, "repeats"},
		"another version": {func(int) (source.ListResult, []string) { return source.ListResult{ResourceVersion: "11"}, nil }, 1, "did not list the version"},
		"another version later": {func(n int) (source.ListResult, []string) {
			return source.ListResult{ResourceVersion: fmt.Sprint(9 + n), Continue: "b"}, nil
		}, 2, "did not list the version"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &pages{next: tt.next}
				for i := range 3 {
					o := namedSettings(i)
					o.ResourceVersion = "5"
					src.items = append(src.items, o)
				}
				inf := startOf(t, src)
				synctest.Wait()
				began := time.Now()
				found, err := inf.currentParts()[0].audit.compare()
				if took := time.Since(began); took != time.Duration(tt.asked-1)*auditPause {
					t.Errorf("%d pages took %v; want a second between two", tt.asked, took)
				}
				if (err == nil) != (tt.words == "") || err != nil && !strings.Contains(err.Error(), tt.words) || err == nil && found.objects() != 0 {
					t.Errorf("found %+v, %v", found, err)
				}
				if len(src.asked) != tt.asked {
					t.Fatalf("%d pages, want %d", len(src.asked), tt.asked)
				}
				if first := src.asked[0]; first.ResourceVersion != "10" || first.ResourceVersionMatch != "Exact" || first.Continue != "" || first.Limit != auditPage {
					t.Errorf("asked for %+v", first)
				}
				for _, later := range src.asked[1:] {
					if later.ResourceVersion != "" || later.ResourceVersionMatch != "" || later.Continue == "" {
						t.Errorf("went on with %+v", later)
					}
				}
			})
		})
	}
}

// TestAuditLooksTwice: a difference found once may be caused by the audit itself and is not
// reported; one found twice is.
func TestAuditLooksTwice(t *testing.T) {
	for name, differs := range map[string]int{"once": 1, "twice": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				src := &pages{next: func(n int) (source.ListResult, []string) {
					items := []string{"0", "1", "2"}
					if n <= differs {
						items = items[1:]
					}
					return source.ListResult{ResourceVersion: "10"}, items
				}}
				for i := range 3 {
					o := namedSettings(i)
					o.ResourceVersion = "5"
					src.items = append(src.items, o)
				}
				inf := startOf(t, src)
				synctest.Wait()
				p := inf.currentParts()[0]
				began := time.Now()
				p.audit.audit()
				st := p.audit.snapshot()
				if len(src.asked) != 2 || time.Since(began) != confirmAfter || st.Completed != 1 ||
					st.Differences != uint64(differs-1) || p.healing.unconditional.Load() != (differs == 2) {
					t.Errorf("after %v and %d lists %+v, heals %t", time.Since(began), len(src.asked), st,
						p.healing.unconditional.Load())
				}
				p.audit.audit()
				if st := p.audit.snapshot(); differs == 1 && len(src.asked) != 3 {
					t.Errorf("a store that is right is compared %d times: %+v", len(src.asked)-2, st)
				}
			})
		})
	}
}

// TestAuditThatBreaksOff: an interrupted audit is inconclusive; objects that it did not list are not extra.
func TestAuditThatBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &pages{fails: 2, next: func(int) (source.ListResult, []string) {
			return source.ListResult{ResourceVersion: "10", Continue: "b"}, []string{"0"}
		}}
		for i := range 3 {
			o := namedSettings(i)
			o.ResourceVersion = "5"
			src.items = append(src.items, o)
		}
		inf := startOf(t, src)
		synctest.Wait()
		p := inf.currentParts()[0]
		p.audit.audit()
		if st := p.audit.snapshot(); st.Inconclusive != 1 || st.Completed != 0 || st.Err == nil ||
			st.Err.Error() != "no such page" || p.healing.unconditional.Load() {
			t.Errorf("%+v, heals %t", st, p.healing.unconditional.Load())
		}
	})
}

// TestAuditsOfLargeCollectionsEnd: a server forgets the version of a list, so the pauses between
// pages must not add up to more than it remembers.
func TestAuditsOfLargeCollectionsEnd(t *testing.T) {
	for _, objects := range []int{0, 1, 499, 10_000, 59_999, 60_000, 1_000_000} {
		pause, pages := pauseBetweenPages(objects), 1+objects/auditPage
		if all := pause * time.Duration(pages); all > longestAudit || pause > auditPause || pages < 120 && pause != auditPause || pages >= 120 && all < longestAudit*9/10 {
			t.Errorf("%d objects: %v before each of %d pages", objects, pause, pages)
		}
	}
}

// lingering is a source whose lists of metadata take a minute to end.
type lingering struct {
	answering
	running atomic.Int32
}

func (l *lingering) ListMetadata(ctx context.Context, _ source.ListOptions[*metav1.PartialObjectMetadata], _ func(*metav1.PartialObjectMetadata) error) (source.ListResult, error) {
	l.running.Add(1)
	<-ctx.Done()
	time.Sleep(time.Minute)
	l.running.Add(-1)
	return source.ListResult{}, ctx.Err()
}

// TestAuditsEndWithTheInformer: no requests are made after it has ended, and an interrupted audit does not count.
func TestAuditsEndWithTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &lingering{}
		inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true, Audit: time.Hour},
			NewSource: func(string) (source.ListerWatcher[settings], error) { return src, nil }})
		if err := inf.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 180 { // the interval is spread
			if time.Sleep(time.Minute); src.running.Load() > 0 {
				break
			}
		}
		if src.running.Load() != 1 {
			t.Fatalf("%d audits are running", src.running.Load())
		}
		inf.Halt(nil)
		<-inf.done
		if st := inf.Status().Parts[0].Audit; src.running.Load() != 0 || st.Completed+st.Inconclusive != 0 {
			t.Errorf("%d audits go on after the end; %+v", src.running.Load(), st)
		}
	})
}

// TestAuditsAreSpread: informers started together do not audit together.
func TestAuditsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		at := map[time.Duration]bool{}
		var infs []*Informer[settings]
		for range 20 {
			src := &pages{next: func(int) (source.ListResult, []string) {
				mu.Lock()
				defer mu.Unlock()
				at[time.Since(began)] = true
				return source.ListResult{ResourceVersion: "10"}, nil
			}}
			inf := New(Config[settings]{Name: "configmaps", Namespaces: []string{""}, Options: Options{Logger: slog.New(slog.DiscardHandler), NoWatchList: true, Audit: time.Hour},
				NewSource: func(string) (source.ListerWatcher[settings], error) { return src, nil }})
			if err := inf.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			infs = append(infs, inf)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, inf := range infs {
			inf.Halt(nil)
			<-inf.done
		}
		shortest, longest := time.Hour, time.Duration(0)
		for d := range at {
			shortest, longest = min(shortest, d), max(longest, d)
		}
		if len(at) < 10 || shortest < 54*time.Minute || longest > time.Hour || longest-shortest < time.Minute {
			t.Errorf("%d times from %v to %v; want 20 within the last tenth of an hour", len(at), shortest, longest)
		}
	})
}

// eventful is a source with its own version, whose watch brings events and is then quiet.
type eventful struct {
	answering
	version string
	events  []source.Event[settings]
}

func (e *eventful) List(ctx context.Context, opts source.ListOptions[settings], each func(settings) error) (source.ListResult, error) {
	_, err := e.answering.List(ctx, opts, each)
	return source.ListResult{ResourceVersion: e.version}, err
}

func (e *eventful) Watch(ctx context.Context, _ source.WatchOptions[settings]) (source.Stream[settings], error) {
	return &eventfulStream{quiet{ctx}, e.events}, e.open
}

type eventfulStream struct {
	quiet
	events []source.Event[settings]
}

func (s *eventfulStream) Next(buf []source.Event[settings]) ([]source.Event[settings], error) {
	if events := s.events; len(events) > 0 {
		s.events = nil
		return append(buf, events...), nil
	}
	return s.quiet.Next(buf)
}

// TestWhatCannotBeComparedOrSaved: an audit needs an open watch, a version, and the names of all
// skipped objects; a file needs a version and all objects.
func TestWhatCannotBeComparedOrSaved(t *testing.T) {
	skipped := func(n int) (events []source.Event[settings]) {
		for i := range n {
			err := &source.ObjectError{Key: keyOf(i), Event: source.Added, Err: errors.New("cannot be decoded")}
			events = append(events, source.Event[settings]{Type: source.Invalid, Err: err, ResourceVersion: fmt.Sprint(11 + i)})
		}
		return events
	}
	for name, tt := range map[string]struct {
		src         eventful
		audit, save error
		version     string // the version that is saved
	}{
		"nothing is wrong":     {src: eventful{version: "10"}, version: "10"},
		"no list":              {src: eventful{version: "10", answering: answering{list: errors.New("down")}}, audit: errNotWatching},
		"no watch":             {src: eventful{version: "10", answering: answering{open: errors.New("down")}}, audit: errNotWatching, version: "10"},
		"no version":           {src: eventful{version: "0"}, audit: errNoVersion},
		"some were left out":   {src: eventful{version: "10", events: skipped(100)}, save: errIncomplete},
		"too many are skipped": {src: eventful{version: "10", events: skipped(101)}, audit: errManySkipped, save: errIncomplete},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inf := startOf(t, &tt.src)
				synctest.Wait()
				p := inf.currentParts()[0]
				if _, _, err := p.ToSave(); err != tt.save {
					t.Errorf("saved with %v, want %v", err, tt.save)
				}
				if _, version, _ := p.ToSave(); version != tt.version {
					t.Errorf("saved at version %q, want %q", version, tt.version)
				}
				tt.src.events = nil
				_, err := p.audit.compare()
				if tt.audit == nil && errors.Is(err, errOtherVersion) { // the watch has moved on from the list
					err = nil
				}
				if err != tt.audit {
					t.Errorf("audited with %v, want %v", err, tt.audit)
				}
			})
		})
	}
}

// TestAuditEndsBetweenPages, when its part does.
func TestAuditEndsBetweenPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &pages{next: func(n int) (source.ListResult, []string) {
			return source.ListResult{ResourceVersion: "10", Continue: fmt.Sprint(n)}, nil
		}}
		inf := startOf(t, src)
		synctest.Wait()
		time.AfterFunc(auditPause/2, func() { inf.Halt(errors.New("enough")) })
		if _, err := inf.currentParts()[0].audit.compare(); !errors.Is(err, ErrStopped) || len(src.asked) != 1 {
			t.Errorf("%v after %d pages", err, len(src.asked))
		}
	})
}
