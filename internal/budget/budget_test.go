package budget

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// books is an account with made-up objects.
type books struct {
	memory *Budget
	name   string
	used   int64
	open   int64 // the part of used that can be folded
	read   int64 // the part of open that was read recently
	visits []bool
}

func (b *books) Name() string     { return b.name }
func (b *books) Measure() int64   { return b.used }
func (b *books) OpenBytes() int64 { return b.open }
func (b *books) Spare() int64     { return 0 }

func (b *books) Fold(all bool, enough func() bool) {
	b.visits = append(b.visits, all)
	for b.open > 0 && (all || b.open > b.read) && !enough() {
		b.open, b.used = b.open-1, b.used-1
		b.memory.used.Add(-1)
	}
	if !all {
		b.read /= 2 // not read since
	}
}

func (b *books) Repack(func() bool) (more bool) { return false }

// grow adds open bytes to the account.
func (b *books) grow(n int64) {
	b.open, b.used = b.open+n, b.used+n
	b.memory.used.Add(n)
}

func newBooks(budget int64, log *strings.Builder, names ...string) (*Budget, []*books) {
	logger := slog.New(slog.DiscardHandler)
	if log != nil {
		logger = slog.New(slog.NewTextHandler(log, nil))
	}
	m := New(budget, logger)
	var all []*books
	for _, name := range names {
		b := &books{memory: m, name: name}
		m.Add(b)
		all = append(all, b)
	}
	return m, all
}

// TestBudgetIsSettled: nobody folds while the budget is kept; beyond it, enough is folded for
// changes to accumulate again.
func TestBudgetIsSettled(t *testing.T) {
	m, all := newBooks(1600, nil, "few", "many")
	all[0].grow(500)
	all[1].grow(1100)
	m.Settle()
	if len(all[0].visits)+len(all[1].visits) != 0 {
		t.Error("objects are folded within the budget")
	}
	if !m.IsTight() || !m.IsMostlyUsed() {
		t.Error("a full budget is not tight")
	}
	all[0].grow(1)
	m.Settle()
	if used := m.used.Load(); used != 1550 || m.problem.Load() != nil {
		t.Errorf("%d bytes are used, problem %v; want a thirty-second part of the budget free", used, m.problem.Load())
	}
	if all[0].open != 501 || all[1].open != 1049 {
		t.Errorf("%d and %d bytes are open, want the informer to fold that has most to fold", all[0].open, all[1].open)
	}
	if m.IsTight() {
		t.Error("a budget with a thirty-second part free is tight")
	}
	m.used.Store(1200)
	if m.IsMostlyUsed() {
		t.Error("a budget with a fourth free is mostly used")
	}
	if m.used.Store(1201); !m.IsMostlyUsed() {
		t.Error("a budget with less than a fourth free is not mostly used")
	}
}

// TestWhatWasReadIsFoldedLast, only if everything else is not enough.
func TestWhatWasReadIsFoldedLast(t *testing.T) {
	m, all := newBooks(1600, nil, "read", "unread")
	all[0].grow(1200)
	all[0].read = 1200
	all[1].grow(600)
	m.Settle()
	if all[0].open != 1200 || all[1].open != 350 {
		t.Errorf("%d bytes of what was read and %d of what was not are open, want 1200 and 350", all[0].open, all[1].open)
	}
	all[0].grow(700) // what was not read since is folded in the second pass
	m.Settle()
	if m.used.Load() != 1550 || slices.Contains(all[0].visits, true) {
		t.Errorf("%d bytes are used after the passes %v", m.used.Load(), all[0].visits)
	}
	all[0].read, all[1].read = 1<<20, 1<<20
	all[0].grow(1600)
	m.Settle()
	if m.used.Load() != 1550 || !slices.Contains(all[0].visits, true) {
		t.Errorf("%d bytes are used after the passes %v, want what was read to be folded too", m.used.Load(), all[0].visits)
	}
}

// TestBudgetThatCannotBeKept: the problem names what takes the memory; folding is tried again only
// when there is more to fold, or the budget can be kept.
func TestBudgetThatCannotBeKept(t *testing.T) {
	var log strings.Builder
	m, all := newBooks(1600, &log, "pods")
	pods := all[0]
	pods.grow(200)
	pods.used += 2000 // unfoldable
	m.used.Add(2000)
	m.Settle()
	const want = "the memory budget of 1600 B does not hold the cached objects even folded: they take 2000 B: pods 2000 B"
	if problem := m.Problem(); problem != want {
		t.Fatalf("problem %q", problem)
	}
	if !strings.Contains(log.String(), "the memory budget is too small") ||
		!strings.Contains(log.String(), "pods 2000 B") {
		t.Errorf("logged %s", log.String())
	}
	pods.visits = nil
	pods.grow(50)
	m.Settle()
	if len(pods.visits) > 0 || pods.open != 50 {
		t.Errorf("%d passes for as little as that", len(pods.visits))
	}
	pods.grow(1)
	m.Settle()
	if len(pods.visits) == 0 || pods.open != 0 {
		t.Errorf("%d passes, and %d bytes open, with more than a thirty-second part to fold", len(pods.visits), pods.open)
	}
	pods.used -= 600
	m.used.Add(-600)
	m.Settle()
	if m.Problem() != "" || m.limit.Load() != 1600 {
		t.Errorf("problem %q and limit %d once the budget can be kept", m.Problem(), m.limit.Load())
	}
}

// TestLimitComesDown with usage: freed memory makes no room for open objects beyond the budget.
func TestLimitComesDown(t *testing.T) {
	for name, shrink := range map[string]func(m *Budget, stuck *books){
		"deleted": func(m *Budget, stuck *books) {
			stuck.used -= 2000
			m.used.Add(-2000)
			m.Settle()
		},
		"ended": func(m *Budget, stuck *books) { m.Remove(stuck, stuck.used) },
	} {
		m, all := newBooks(1600, nil, "stuck", "pods", "more")
		for _, b := range all[:2] {
			b.used = 2000 // unfoldable
			m.used.Add(2000)
		}
		m.Settle()
		shrink(m, all[0])
		all[2].grow(m.Slack() + 1)
		m.Settle()
		if all[2].open != 0 {
			t.Errorf("%s: %d bytes are open of %d that are used", name, all[2].open, m.used.Load())
		}
	}
}

// TestOnlyOneFolds: others continue while somebody folds.
func TestOnlyOneFolds(t *testing.T) {
	m, all := newBooks(1600, nil, "pods")
	all[0].grow(1700)
	m.settling.Lock()
	m.Settle()
	if len(all[0].visits) != 0 {
		t.Error("two fold at once")
	}
	m.settling.Unlock()
	for range 2 {
		m.Settle() // if the first call kept the lock, the second does nothing
		if all[0].open != 1550 {
			t.Errorf("%d bytes are open", all[0].open)
		}
		all[0].grow(200)
	}
}

// TestEndedInformersTakeNothing: the memory of an ended informer is free for others, and it is not
// asked to fold any more.
func TestEndedInformersTakeNothing(t *testing.T) {
	m, all := newBooks(1600, nil, "a", "b", "c")
	for _, b := range all {
		b.grow(400)
	}
	m.Remove(all[1], 400)
	if used := m.used.Load(); used != 800 {
		t.Errorf("%d bytes are used after one of three has ended, want 800", used)
	}
	if left := m.byOpenBytes(); len(left) != 2 || left[0] != Account(all[0]) || left[1] != Account(all[2]) {
		t.Errorf("%d informers share the budget, want the first and the third", len(left))
	}
}

// TestEndedInformersAreNoProblem: what is said about the budget does not name one that has ended, and does not outlive it.
func TestEndedInformersAreNoProblem(t *testing.T) {
	m, all := newBooks(1600, nil, "a", "b", "c")
	for _, b := range all {
		b.used = 1000 // unfoldable
		m.used.Add(1000)
	}
	m.Settle()
	for _, tt := range []struct {
		ends *books
		want string
	}{{nil, "they take 3000 B: a 1000 B, b 1000 B, c 1000 B"}, {all[1], "they take 2000 B: a 1000 B, c 1000 B"}, {all[0], ""}} {
		if tt.ends != nil {
			m.Remove(tt.ends, tt.ends.used)
		}
		if got := m.Problem(); !strings.HasSuffix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("problem %q, want %q", got, tt.want)
		}
	}
}

// TestLargestAreNamed: the five accounts that take most, largest first.
func TestLargestAreNamed(t *testing.T) {
	var names []string
	for i := range 7 {
		names = append(names, fmt.Sprint("r", i))
	}
	m, all := newBooks(1600, nil, names...)
	for i, b := range all {
		b.used = int64(10 * (i*3%7 + 1)) // r5 takes 20
	}
	if got, want := m.largest(), "r2 70 B, r4 60 B, r6 50 B, r1 40 B, r3 30 B, 2 more"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	m, all = newBooks(1600, nil, names[:5]...)
	if got := m.largest(); strings.Contains(got, "more") || strings.Count(got, "0 B") != len(all) {
		t.Errorf("%q, want all five", got)
	}
}

// TestSharedBytesOfABudget: a source gets a small share of it, but enough to be useful.
func TestSharedBytesOfABudget(t *testing.T) {
	for budget, want := range map[int64]int{-1: 0, 0: 0, 1: minShared, sharedShare * minShared: minShared, sharedShare << 20: 1 << 20} {
		if got := SharedBytes(budget); got != want {
			t.Errorf("%d of %d, want %d", got, budget, want)
		}
	}
}
