package engine

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidings/tidings/internal/usercode"
)

// Memory is a memory budget that informers share.
//
//	            ┌────────── Memory: budget, sum of all accounts ──────────┐
//	informer ──►│ account: folded bytes are counted, open objects sampled │
//	informer ──►│ account                                                 │
//	            └─────────────────────────────────────────────────────────┘
//	the part that exceeds the budget ──► folds changed objects, then scans on from where the last scan stopped, sparing objects that were read
//
// It has no goroutine: the part whose change exceeds the budget folds, even objects of other
// informers, before it reads on. So the server is slowed down rather than the budget exceeded.
type Memory struct {
	budget int64
	log    *usercode.ThrottledLog

	used atomic.Int64 // by all accounts
	// limit is the value of used above which somebody folds.
	limit    atomic.Int64
	settling sync.Mutex // held while folding
	// repacking says that the next settle continues with repack.
	repacking atomic.Bool
	problem   atomic.Pointer[string]

	mu       sync.Mutex // guards accounts
	accounts []account
}

// account is an informer as its Memory sees it.
type account interface {
	accountName() string
	// measure updates and returns the memory that the account uses.
	measure() int64
	// openBytes is the memory of open objects that can be folded.
	openBytes() int64
	// spare is the memory that the account gives up when objects need it.
	spare() int64
	// fold passes once over the open objects and folds them until enough returns true. It spares
	// objects that were read recently, unless all is set.
	fold(all bool, enough func() bool)
	// repack packs folded objects better, if enough came one by one since it last did, until enough
	// returns true. It stops after a few thousand, and reports whether there are more.
	repack(enough func() bool) (more bool)
}

// NewMemory returns a budget of this many bytes.
func NewMemory(budget int64, logger *slog.Logger) *Memory {
	m := &Memory{budget: budget, log: usercode.NewThrottledLog(logger)}
	m.limit.Store(budget)
	return m
}

// slack is how far below the budget folding goes, and how far above the unfoldable memory open
// objects may accumulate, so that many are folded together.
func (m *Memory) slack() int64 { return m.budget / 32 }

func (m *Memory) addAccount(a account) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.accounts = append(m.accounts, a)
}

func (m *Memory) removeAccount(a account, used int64) {
	m.mu.Lock()
	m.accounts = slices.DeleteFunc(m.accounts, func(other account) bool { return other == a })
	m.mu.Unlock()
	now := m.used.Add(-used)
	m.limit.Store(m.budget)
	if m.problem.Load() != nil { // it may name the account that was removed
		m.updateProblem(now)
	}
}

// byOpenBytes returns the accounts, those with most to fold first.
func (m *Memory) byOpenBytes() []account {
	m.mu.Lock()
	accounts := slices.Clone(m.accounts)
	m.mu.Unlock()
	slices.SortStableFunc(accounts, func(a, b account) int { return cmp.Compare(b.openBytes(), a.openBytes()) })
	return accounts
}

// isTight reports whether new objects should be folded at once.
func (m *Memory) isTight() bool { return m.used.Load() > m.budget-m.slack() }

// isMostlyUsed reports whether so little room is left that a folded object is folded again when it
// changes, instead of being opened: decoding and folding just the changed parts takes less time
// than folding it later.
func (m *Memory) isMostlyUsed() bool { return m.used.Load() > m.budget-m.budget/4 }

// isDue reports whether somebody has to settle.
func (m *Memory) isDue(used int64) bool {
	return used > m.limit.Load() || used > m.budget && m.repacking.Load() || used <= m.budget && m.problem.Load() != nil
}

// settle folds until the budget is kept, if it is exceeded. Only one goroutine does; others
// continue. No informer's lock is held.
func (m *Memory) settle() {
	m.lowerLimit()
	if !m.isDue(m.used.Load()) || !m.settling.TryLock() {
		return
	}
	defer m.settling.Unlock()
	enough := func() bool { return m.used.Load() <= m.budget-m.slack() }
	for _, all := range []bool{false, false, true} { // the first pass clears the read marks, the second sees new ones
		for _, a := range m.byOpenBytes() {
			if enough() {
				break
			}
			a.fold(all, enough)
		}
	}
	more := m.repack()
	m.repacking.Store(more)
	used := m.used.Load()
	m.limit.Store(max(m.budget, used+m.slack()))
	if more && used > m.budget && used <= m.budget+m.slack() {
		return // it may still come to fit
	}
	m.updateProblem(used)
}

// repack packs folded objects better until they leave enough room for open ones.
func (m *Memory) repack() (more bool) {
	accounts := m.byOpenBytes()
	enough := func() bool {
		used := m.used.Load()
		for _, a := range accounts {
			used -= a.spare()
		}
		return used <= m.budget-m.slack()
	}
	for _, a := range accounts {
		if enough() {
			break
		}
		more = a.repack(enough) || more
	}
	return more
}

// lowerLimit lowers the limit as usage falls: freed memory makes no room beyond the budget.
func (m *Memory) lowerLimit() {
	limit := m.limit.Load()
	if lower := max(m.budget, m.used.Load()+m.slack()); lower < limit {
		m.limit.CompareAndSwap(limit, lower)
	}
}

// updateProblem records and logs that the budget is exceeded, or clears the problem.
func (m *Memory) updateProblem(used int64) {
	if used <= m.budget {
		m.problem.Store(nil)
		return
	}
	problem := fmt.Sprintf("the memory budget of %s does not hold the cached objects even folded: they take %s: %s",
		formatBytes(m.budget), formatBytes(used), m.largest())
	m.problem.Store(&problem)
	m.log.Log(slog.LevelWarn, "the memory budget is too small; nothing is dropped, memory goes on growing", "problem", problem)
}

// largest names the accounts that take most memory.
func (m *Memory) largest() string {
	type use struct {
		name  string
		bytes int64
	}
	var uses []use
	for _, a := range m.byOpenBytes() {
		uses = append(uses, use{a.accountName(), a.measure()})
	}
	slices.SortStableFunc(uses, func(a, b use) int { return cmp.Compare(b.bytes, a.bytes) })
	var words []string
	for i, u := range uses {
		if i == 5 {
			words = append(words, fmt.Sprintf("%d more", len(uses)-i))
			break
		}
		words = append(words, u.name+" "+formatBytes(u.bytes))
	}
	return strings.Join(words, ", ")
}

// formatBytes formats a number of bytes for people.
func formatBytes(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d B", n)
	case n < 10_000_000:
		return fmt.Sprintf("%d kB", n/1000)
	default:
		return fmt.Sprintf("%d MB", n/1_000_000)
	}
}
