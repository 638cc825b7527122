package budget

import (
	"log/slog"
	"testing"
)

// steps is an account whose objects are all folded, and can be packed better in a few steps.
type steps struct {
	memory      *Budget
	used        int64
	kept        int64 // the part of it that objects need
	left, calls int
}

func (s *steps) Name() string                      { return "steps" }
func (s *steps) Measure() int64                    { return s.used }
func (s *steps) OpenBytes() int64                  { return 0 }
func (s *steps) Spare() int64                      { return s.kept }
func (s *steps) Fold(all bool, enough func() bool) {}
func (s *steps) grow(bytes int64)                  { s.used += bytes; s.memory.used.Add(bytes) }
func (s *steps) Repack(enough func() bool) (m bool) {
	if s.left == 0 {
		return false
	}
	s.calls++
	s.left--
	s.grow(-100)
	return s.left > 0
}

// TestSettleShrinks repacks, one step per change, if everything is folded and does not fit.
func TestSettleShrinks(t *testing.T) {
	m := New(16_000, slog.New(slog.DiscardHandler))
	a := &steps{memory: m, left: 30}
	m.Add(a)
	a.grow(16_000)
	if m.Settle(); a.calls != 0 {
		t.Error("what fits was packed again")
	}
	a.grow(500)
	m.Settle()
	if a.calls != 1 || m.problem.Load() != nil {
		t.Errorf("%d steps at first, want one, and no problem yet", a.calls)
	}
	for range 10 { // used is below the limit now, but not everything was examined
		m.Settle()
	}
	if a.calls != 5 || m.used.Load() != m.bytes || m.problem.Load() != nil {
		t.Errorf("%d steps, %d bytes, problem %v; want 5, the budget and none", a.calls, m.used.Load(), m.problem.Load())
	}
	a.left = 0
	a.grow(5000)
	for range 3 {
		m.Settle()
	}
	if m.repacking.Load() || m.problem.Load() == nil {
		t.Error("want a problem, and no more steps")
	}
}

// TestSettleLeavesRoomAlone: nothing is repacked to make room for what merely fills it.
func TestSettleLeavesRoomAlone(t *testing.T) {
	for kept, calls := range map[int64]int{1499: 1, 1500: 0} {
		m := New(32_000, slog.New(slog.DiscardHandler))
		a, other := &steps{memory: m, kept: kept, left: 1}, &steps{memory: m}
		m.Add(a)
		m.Add(other)
		a.grow(20_000)
		other.grow(12_500)
		if m.Settle(); a.calls != calls {
			t.Errorf("%d bytes that objects may have: %d steps, want %d", kept, a.calls, calls)
		}
	}
}

// TestBudgetThatMayStillFit is no problem while objects can be packed better and little is missing.
func TestBudgetThatMayStillFit(t *testing.T) {
	for _, tt := range []struct {
		over    int64 // after a step
		left    int
		problem bool
	}{{-1, 2, false}, {0, 2, false}, {1, 2, false}, {999, 2, false}, {1000, 2, false}, {1001, 2, true}, {1, 1, true}, {1000, 1, true}, {0, 1, false}} {
		m := New(32_000, slog.New(slog.DiscardHandler))
		a := &steps{memory: m, left: tt.left}
		m.Add(a)
		a.grow(32_000 + 100 + tt.over)
		if m.Settle(); (m.problem.Load() != nil) != tt.problem || a.calls != 1 {
			t.Errorf("%d bytes over the budget, %d steps left: %d steps, problem %t", tt.over, tt.left-a.calls, a.calls, m.problem.Load() != nil)
		}
	}
}

// TestBudgetThatFitsAgain is no problem any more, exact to the byte.
func TestBudgetThatFitsAgain(t *testing.T) {
	for over, problem := range map[int64]bool{-1: false, 0: false, 1: true} {
		m := New(16_000, slog.New(slog.DiscardHandler))
		a := &steps{memory: m}
		m.Add(a)
		a.grow(20_000)
		if m.Settle(); m.problem.Load() == nil {
			t.Fatal("want a problem")
		}
		a.grow(-4000 + over)
		if m.Settle(); (m.problem.Load() != nil) != problem {
			t.Errorf("%d bytes over the budget: problem %t, want %t", over, m.problem.Load() != nil, problem)
		}
	}
}

// TestBudgetThatFitsWhilePacked is no problem from the step on with which everything fits, though there are more steps.
func TestBudgetThatFitsWhilePacked(t *testing.T) {
	for over, problem := range map[int64]bool{0: false, 1: true} {
		m := New(32_000, slog.New(slog.DiscardHandler))
		a := &steps{memory: m, left: 3}
		m.Add(a)
		a.grow(32_000 + 5000)
		if m.Settle(); m.Problem() == "" || !m.repacking.Load() {
			t.Fatal("want a problem, and more steps")
		}
		a.grow(32_000 + 100 + over - a.used) // a step frees 100
		if m.Settle(); (m.Problem() != "") != problem || a.left != 1 {
			t.Errorf("%d bytes over the budget, %d steps left: problem %q", over, a.left, m.Problem())
		}
	}
}
