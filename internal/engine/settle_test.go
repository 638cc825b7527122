package engine

import (
	"log/slog"
	"testing"
)

// steps is an account whose objects are all folded, and can be packed better in a few steps.
type steps struct {
	memory      *Memory
	used        int64
	kept        int64 // the part of it that objects need
	left, calls int
}

func (s *steps) accountName() string               { return "steps" }
func (s *steps) measure() int64                    { return s.used }
func (s *steps) openBytes() int64                  { return 0 }
func (s *steps) spare() int64                      { return s.kept }
func (s *steps) fold(all bool, enough func() bool) {}
func (s *steps) grow(bytes int64)                  { s.used += bytes; s.memory.used.Add(bytes) }
func (s *steps) repack(enough func() bool) (m bool) {
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
	m := NewMemory(16_000, slog.New(slog.DiscardHandler))
	a := &steps{memory: m, left: 30}
	m.addAccount(a)
	a.grow(16_000)
	if m.settle(); a.calls != 0 {
		t.Error("what fits was packed again")
	}
	a.grow(500)
	m.settle()
	if a.calls != 1 || m.problem.Load() != nil {
		t.Errorf("%d steps at first, want one, and no problem yet", a.calls)
	}
	for range 10 { // used is below the limit now, but not everything was examined
		m.settle()
	}
	if a.calls != 5 || m.used.Load() != m.budget || m.problem.Load() != nil {
		t.Errorf("%d steps, %d bytes, problem %v; want 5, the budget and none", a.calls, m.used.Load(), m.problem.Load())
	}
	a.left = 0
	a.grow(5000)
	for range 3 {
		m.settle()
	}
	if m.repacking.Load() || m.problem.Load() == nil {
		t.Error("want a problem, and no more steps")
	}
}

// TestSettleLeavesRoomAlone: nothing is repacked to make room for what merely fills it.
func TestSettleLeavesRoomAlone(t *testing.T) {
	for kept, calls := range map[int64]int{1499: 1, 1500: 0} {
		m := NewMemory(32_000, slog.New(slog.DiscardHandler))
		a, other := &steps{memory: m, kept: kept, left: 1}, &steps{memory: m}
		m.addAccount(a)
		m.addAccount(other)
		a.grow(20_000)
		other.grow(12_500)
		if m.settle(); a.calls != calls {
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
		m := NewMemory(32_000, slog.New(slog.DiscardHandler))
		a := &steps{memory: m, left: tt.left}
		m.addAccount(a)
		a.grow(32_000 + 100 + tt.over)
		if m.settle(); (m.problem.Load() != nil) != tt.problem || a.calls != 1 {
			t.Errorf("%d bytes over the budget, %d steps left: %d steps, problem %t", tt.over, tt.left-a.calls, a.calls, m.problem.Load() != nil)
		}
	}
}

// TestBudgetThatFitsAgain is no problem any more, exact to the byte.
func TestBudgetThatFitsAgain(t *testing.T) {
	for over, problem := range map[int64]bool{-1: false, 0: false, 1: true} {
		m := NewMemory(16_000, slog.New(slog.DiscardHandler))
		a := &steps{memory: m}
		m.addAccount(a)
		a.grow(20_000)
		if m.settle(); m.problem.Load() == nil {
			t.Fatal("want a problem")
		}
		a.grow(-4000 + over)
		if m.settle(); (m.problem.Load() != nil) != problem {
			t.Errorf("%d bytes over the budget: problem %t, want %t", over, m.problem.Load() != nil, problem)
		}
	}
}
