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
		if got := w.Begin().Commit(step[0]).ResourceVersion(); got != step[1] {
			t.Errorf("Commit(%q) leads to %q, want %q", step[0], got, step[1])
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
			w.Begin().Commit(step.commit)
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
		w.Begin().Commit("3")
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
		w.Begin().Commit("opaque")
		if err := <-errs; err == nil {
			t.Error("waited for a version that cannot be compared")
		}
	})
}
