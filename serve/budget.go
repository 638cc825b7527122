package serve

import (
	"context"
	"fmt"
	"strings"
	"time"

	quantity "k8s.io/apimachinery/pkg/api/resource"
)

const (
	// budgetInterval is how often the memory is compared with its budget.
	budgetInterval = 5 * time.Second
	// garbage is the share of the budget that is left to the runtime and to requests.
	garbage = 0.25
	// minJournal is what every journal keeps, since watches read from it.
	minJournal = 1 << 20
)

// keepBudget shortens the journals so that they and the objects stay within the budget, until ctx ends.
func (s *Server) keepBudget(ctx context.Context) {
	tick := time.NewTicker(budgetInterval)
	defer tick.Stop()
	exceeded := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s.shareBudget()
		excess := s.overBudget()
		if excess != "" && !exceeded {
			s.options.Logger.ErrorContext(ctx, excess)
		}
		exceeded = excess != ""
	}
}

// shareBudget gives each journal an equal part of what the objects leave.
func (s *Server) shareBudget() {
	left := s.budgetForData()
	for _, r := range s.resources {
		left -= r.Collection.Stats().ObjectBytes
	}
	each := max(minJournal, min(s.options.JournalBytes, left/int64(len(s.resources))))
	for _, r := range s.resources {
		r.Collection.LimitJournal(each)
	}
}

func (s *Server) budgetForData() int64 { return int64(float64(s.options.MemoryBudget) * (1 - garbage)) }

// overBudget says what takes the memory if the objects and the least journals do not fit into the budget; "" if they
// do.
func (s *Server) overBudget() string {
	if s.options.MemoryBudget == 0 {
		return ""
	}
	total, takers := int64(0), []string(nil)
	for _, r := range s.resources {
		stats := r.Collection.Stats()
		total += stats.ObjectBytes + stats.JournalBytes
		takers = append(takers, fmt.Sprintf("%s: %d objects with %s, journal %s",
			r.Name, stats.Objects, megabytes(stats.ObjectBytes), megabytes(stats.JournalBytes)))
	}
	if total <= s.budgetForData() {
		return ""
	}
	return fmt.Sprintf("the memory budget of %s is too small, since a quarter is for requests and garbage and "+
		"the rest would be %s: %s; raise --memory-budget or serve fewer resources",
		megabytes(s.options.MemoryBudget), megabytes(total), strings.Join(takers, "; "))
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// ParseBytes parses an amount of memory as Kubernetes writes it, such as 512Mi.
func ParseBytes(text string) (int64, error) {
	q, err := quantity.ParseQuantity(text)
	if err != nil || q.Sign() <= 0 {
		return 0, fmt.Errorf("%q is not an amount of memory, such as 512Mi or 2Gi", text)
	}
	return q.Value(), nil
}
