package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidings/tidings/object"
)

func TestResourceVersionNeverGoesBack(t *testing.T) {
	w := NewWriter[*thing](Options{})
	for _, step := range [][2]string{{"", ""}, {"9", "9"}, {"", "9"}, {"10", "10"}, {"9", "10"}, {"007", "10"}} {
		if got := commit(w.Begin(), step[0]).ResourceVersion(); got != step[1] {
			t.Errorf("Advance to %q leads to %q, want %q", step[0], got, step[1])
		}
	}
}

func TestWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWriter[*thing](Options{})
		s := w.Store()
		results := make(chan string, 10)
		for _, version := range []string{"", "5", "10", "11"} {
			go func() {
				if err := s.WaitFor(t.Context(), version); err != nil {
					t.Error(err)
				}
				if c, err := object.CompareResourceVersions(s.Snapshot().ResourceVersion(), version); err != nil || c < 0 {
					t.Errorf("woken for %s at %s", version, s.Snapshot().ResourceVersion())
				}
				results <- version
			}()
		}
		for _, step := range []struct {
			commit string
			want   []string
		}{{"", []string{""}}, {"4", nil}, {"10", []string{"10", "5"}}, {"12", []string{"11"}}} {
			commit(w.Begin(), step.commit)
			synctest.Wait()
			var got []string
			for len(results) > 0 {
				got = append(got, <-results)
			}
			if slices.Sort(got); !slices.Equal(got, step.want) {
				t.Errorf("Commit(%s) woke %q, want %q", step.commit, got, step.want)
			}
		}
		if s.waiters != nil {
			t.Error("waiters are left")
		}
	})
}

func TestWaitForEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWriter[*thing](Options{})
		commit(w.Begin(), "3")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := w.Store().WaitFor(ctx, "7")
		wait, ok := errors.AsType[*WaitError](err)
		if !ok || wait.Want != "7" || wait.Have != "3" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		want := "waiting for resource version 7: the store is at resource version 3: context deadline exceeded"
		if err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
		if err := w.Store().WaitFor(t.Context(), "abc"); err == nil || !strings.Contains(err.Error(), `"abc" is not a decimal number`) {
			t.Errorf("got %v", err)
		}
		if w.Store().waiters != nil {
			t.Error("waiters are left")
		}
	})
}

func TestWaitForStoreWithoutOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWriter[*thing](Options{})
		errs := make(chan error, 1)
		go func() { errs <- w.Store().WaitFor(t.Context(), "7") }()
		synctest.Wait()
		commit(w.Begin(), "opaque")
		if err := <-errs; err == nil {
			t.Error("waited for a version that cannot be compared")
		}
	})
}

// waiters starts waits, and reports how they ended.
type waiters struct {
	t     *testing.T
	ended map[string]chan error
}

func (w *waiters) start(name string, wait func() error) {
	if w.ended == nil {
		w.ended = map[string]chan error{}
	}
	ended := make(chan error, 1)
	w.ended[name] = ended
	go func() { ended <- wait() }()
}

// expect checks that exactly these waits have ended since the last call. A name with a ! has ended with ErrRewritten.
func (w *waiters) expect(step string, want ...string) {
	w.t.Helper()
	synctest.Wait()
	var got []string
	for name, ended := range w.ended {
		select {
		case err := <-ended:
			if errors.Is(err, ErrRewritten) {
				name += "!"
			} else if err != nil {
				w.t.Errorf("%s: %s: %v", step, name, err)
			}
			got = append(got, name)
		default:
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: %q have ended, want %q", step, got, want)
	}
}

// TestWaitForParts has two namespaces, one of which lags behind.
func TestWaitForParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := holding("", at("a/x", "1", "12", ""))
		s := w.Store()
		w.Begin().Abort()
		txn := w.Begin()
		txn.Advance("a", "10")
		txn.Advance("b", "5")
		txn.Commit()
		x, y, z := object.Key{Namespace: "a", Name: "x"}, object.Key{Namespace: "a", Name: "y"}, object.Key{Namespace: "b", Name: "z"}
		waits := waiters{t: t}
		waits.start("all at 10", func() error { return s.WaitFor(t.Context(), "10") })
		waits.start("all at 5", func() error { return s.WaitFor(t.Context(), "5") })
		waits.start("a at 10", func() error { return s.WaitIn(t.Context(), "a", "10") })
		waits.start("a at 11", func() error { return s.WaitIn(t.Context(), "a", "11") })
		waits.start("x at 12", func() error { return s.WaitForKey(t.Context(), x, "12") })
		waits.start("x at 13", func() error { return s.WaitForKey(t.Context(), x, "13") })
		waits.start("y at 11", func() error { return s.WaitForKey(t.Context(), y, "11") })
		waits.start("z at 7", func() error { return s.WaitForKey(t.Context(), z, "7") })
		waits.start("c at 1", func() error { return s.WaitIn(t.Context(), "c", "1") })
		waits.expect("at first", "all at 5", "a at 10", "x at 12")
		step := func(name string, change func(txn *Txn[*thing]), want ...string) {
			t.Helper()
			txn := w.Begin()
			change(txn)
			txn.Commit()
			waits.expect(name, want...)
		}
		step("an object", func(txn *Txn[*thing]) { txn.Set(z, at("b/z", "2", "7", "")) }, "z at 7")
		step("a bookmark", func(txn *Txn[*thing]) { txn.Advance("a", "11") }, "a at 11", "y at 11")
		step("another part", func(txn *Txn[*thing]) { txn.Advance("b", "9") })
		step("without the slow part", func(txn *Txn[*thing]) { txn.Drop("b") }, "all at 10")
		step("a new part", func(txn *Txn[*thing]) { txn.Replace("c", items{}, "20", false) }, "c at 1")
		step("a deletion", func(txn *Txn[*thing]) { txn.Delete(x); txn.Advance("a", "13") }, "x at 13")
		if s.waiters != nil {
			t.Error("waiters are left")
		}
	})
}

func TestRewrittenHistoryEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := holding("")
		s := w.Store()
		txn := w.Begin()
		txn.Advance("a", "10")
		txn.Advance("b", "10")
		txn.Set(object.Key{Namespace: "a", Name: "x"}, at("a/x", "1", "10", ""))
		txn.Commit()
		waits := waiters{t: t}
		wait := func(name, namespace, version string) {
			waits.start(name, func() error { return s.WaitIn(t.Context(), namespace, version) })
		}
		wait("all at 11", "", "11")
		wait("a at 11", "a", "11")
		wait("a at 30", "a", "30")
		wait("b at 12", "b", "12")
		for _, name := range []string{"x", "y"} {
			waits.start(name+" at 11", func() error { return s.WaitForKey(t.Context(), object.Key{Namespace: "a", Name: name}, "11") })
		}
		waits.expect("at first")
		txn = w.Begin()
		txn.Replace("a", items{at("a/x", "1", "11", "")}, "7", true)
		txn.Commit()
		waits.expect("a goes back", "a at 11!", "a at 30!", "all at 11!", "x at 11", "y at 11!")
		wait("a at 8", "a", "8")
		txn = w.Begin()
		txn.Replace("a", items{}, "9", false)
		txn.Commit()
		waits.expect("a goes on", "a at 8")
		txn = w.Begin()
		txn.Replace("b", items{}, "12", true)
		txn.Commit()
		waits.expect("b is rewritten at a newer version", "b at 12")
	})
}

func TestWaitErrorTexts(t *testing.T) {
	w := holding("")
	txn := w.Begin()
	txn.Advance("a", "5")
	txn.Commit()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	s := w.Store()
	for want, err := range map[string]error{
		"waiting for resource version 7: the store is at resource version 5: stopped":              s.WaitFor(ctx, "7"),
		"waiting for resource version 7 of namespace a: it is at resource version 5: stopped":      s.WaitIn(ctx, "a", "7"),
		"waiting for resource version 7 of namespace b: it is at no resource version yet: stopped": s.WaitIn(ctx, "b", "7"),
		"waiting for resource version 7 of a/x: the store is at resource version 5: stopped":       s.WaitForKey(ctx, object.Key{Namespace: "a", Name: "x"}, "7"),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
