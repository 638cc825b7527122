// Package budget shares a number of bytes among accounts, and measures what Go objects take of it. It
// knows no informer.
package budget

import (
	"cmp"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidings/tidings/internal/usercode"
)

// Budget is a memory budget that informers share.
//
//	            ┌────────── Budget: bytes, sum of all accounts ──────────┐
//	informer ──►│ account: folded bytes are counted, open objects sampled │
//	informer ──►│ account                                                 │
//	            └─────────────────────────────────────────────────────────┘
//	the part that exceeds the budget ──► folds changed objects, then scans on from where the last scan stopped, sparing objects that were read
//
// It has no goroutine: the part whose change exceeds the budget folds, even objects of other
// informers, before it reads on. So the server is slowed down rather than the budget exceeded.
type Budget struct {
	bytes int64
	log   *usercode.ThrottledLog

	used atomic.Int64 // by all accounts
	// limit is the value of used above which somebody folds.
	limit    atomic.Int64
	settling sync.Mutex // held while folding
	// repacking says that the next Settle continues with repack.
	repacking atomic.Bool
	problem   atomic.Pointer[string]

	mu       sync.Mutex // guards accounts
	accounts []Account
}

// Account is an informer as its Budget sees it.
type Account interface {
	Name() string
	// Measure updates and returns the memory that the account uses.
	Measure() int64
	// OpenBytes is the memory of open objects that can be folded.
	OpenBytes() int64
	// Spare is the memory that the account gives up when objects need it.
	Spare() int64
	// Fold passes once over the open objects and folds them until enough returns true. It spares
	// objects that were read recently, unless all is set.
	Fold(all bool, enough func() bool)
	// Repack packs folded objects better, if enough came one by one since it last did, until enough
	// returns true. It stops after a few thousand, and reports whether there are more.
	Repack(enough func() bool) (more bool)
}

// New returns a budget of this many bytes.
func New(bytes int64, logger *slog.Logger) *Budget {
	m := &Budget{bytes: bytes, log: usercode.NewThrottledLog(logger)}
	m.limit.Store(bytes)
	return m
}

// Unlimited returns a budget that everything fits.
func Unlimited() *Budget { return New(math.MaxInt64/4, slog.New(slog.DiscardHandler)) }

// Bytes returns the size of the budget.
func (m *Budget) Bytes() int64 { return m.bytes }

// Used returns what all accounts use.
func (m *Budget) Used() int64 { return m.used.Load() }

// Change adds to what the accounts use, and returns the sum.
func (m *Budget) Change(by int64) int64 { return m.used.Add(by) }

// Problem says what is wrong if the budget is exceeded; "" if it is not.
func (m *Budget) Problem() string {
	if problem := m.problem.Load(); problem != nil {
		return *problem
	}
	return ""
}

// SharedBytes returns how much memory a source may use for tables of shared parts under a budget; 0 for its default.
func SharedBytes(budget int64) int {
	if budget <= 0 {
		return 0
	}
	return int(max(minShared, budget/sharedShare))
}

// Tables of shared parts may take 1/sharedShare of the budget each, in the source of each namespace and
// once more for opened objects, but at least minShared.
const (
	sharedShare = 48
	minShared   = 128 << 10
)

// Slack is how far below the budget folding goes, and how far above the unfoldable memory open
// objects may accumulate, so that many are folded together.
func (m *Budget) Slack() int64 { return m.bytes / 32 }

// Add adds an account, which counts with its first Change.
func (m *Budget) Add(a Account) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.accounts = append(m.accounts, a)
}

// Remove removes an account that has used this much.
func (m *Budget) Remove(a Account, used int64) {
	m.mu.Lock()
	m.accounts = slices.DeleteFunc(m.accounts, func(other Account) bool { return other == a })
	m.mu.Unlock()
	now := m.used.Add(-used)
	m.limit.Store(m.bytes)
	if m.problem.Load() != nil { // it may name the account that was removed
		m.updateProblem(now)
	}
}

// byOpenBytes returns the accounts, those with most to fold first.
func (m *Budget) byOpenBytes() []Account {
	m.mu.Lock()
	accounts := slices.Clone(m.accounts)
	m.mu.Unlock()
	slices.SortStableFunc(accounts, func(a, b Account) int { return cmp.Compare(b.OpenBytes(), a.OpenBytes()) })
	return accounts
}

// IsTight reports whether new objects should be folded at once.
func (m *Budget) IsTight() bool { return m.used.Load() > m.bytes-m.Slack() }

// IsMostlyUsed reports whether so little room is left that a folded object is folded again when it
// changes, instead of being opened: decoding and folding just the changed parts takes less time
// than folding it later.
func (m *Budget) IsMostlyUsed() bool { return m.used.Load() > m.bytes-m.bytes/4 }

// isDue reports whether somebody has to settle.
func (m *Budget) isDue(used int64) bool {
	return used > m.limit.Load() || used > m.bytes && m.repacking.Load() || used <= m.bytes && m.problem.Load() != nil
}

// Settle folds until the budget is kept, if it is exceeded. Only one goroutine does; others
// continue. No informer's lock is held.
func (m *Budget) Settle() {
	m.lowerLimit()
	if !m.isDue(m.used.Load()) || !m.settling.TryLock() {
		return
	}
	defer m.settling.Unlock()
	enough := func() bool { return m.used.Load() <= m.bytes-m.Slack() }
	for _, all := range []bool{false, false, true} { // the first pass clears the read marks, the second sees new ones
		for _, a := range m.byOpenBytes() {
			if enough() {
				break
			}
			a.Fold(all, enough)
		}
	}
	more := m.repack()
	m.repacking.Store(more)
	used := m.used.Load()
	m.limit.Store(max(m.bytes, used+m.Slack()))
	if more && used > m.bytes && used <= m.bytes+m.Slack() {
		return // it may still come to fit
	}
	m.updateProblem(used)
}

// repack packs folded objects better until they leave enough room for open ones.
func (m *Budget) repack() (more bool) {
	accounts := m.byOpenBytes()
	enough := func() bool {
		used := m.used.Load()
		for _, a := range accounts {
			used -= a.Spare()
		}
		return used <= m.bytes-m.Slack()
	}
	for _, a := range accounts {
		if enough() {
			break
		}
		more = a.Repack(enough) || more
	}
	return more
}

// lowerLimit lowers the limit as usage falls: freed memory makes no room beyond the budget.
func (m *Budget) lowerLimit() {
	limit := m.limit.Load()
	if lower := max(m.bytes, m.used.Load()+m.Slack()); lower < limit {
		m.limit.CompareAndSwap(limit, lower)
	}
}

// updateProblem records and logs that the budget is exceeded, or clears the problem.
func (m *Budget) updateProblem(used int64) {
	if used <= m.bytes {
		m.problem.Store(nil)
		return
	}
	problem := fmt.Sprintf("the memory budget of %s does not hold the cached objects even folded: they take %s: %s",
		formatBytes(m.bytes), formatBytes(used), m.largest())
	m.problem.Store(&problem)
	m.log.Log(slog.LevelWarn, "the memory budget is too small; nothing is dropped, memory goes on growing", "problem", problem)
}

// largest names the accounts that take most memory.
func (m *Budget) largest() string {
	type use struct {
		name  string
		bytes int64
	}
	var uses []use
	for _, a := range m.byOpenBytes() {
		uses = append(uses, use{a.Name(), a.Measure()})
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
