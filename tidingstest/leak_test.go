package tidingstest

import (
	"strings"
	"testing"
)

// quiet is a testing.TB that records failures instead of reporting them.
type quiet struct {
	testing.TB
	cleanup func()
	errors  []string
}

func (q *quiet) Helper()          {}
func (q *quiet) Cleanup(f func()) { q.cleanup = f }
func (q *quiet) Error(args ...any) {
	for _, a := range args {
		if err, ok := a.(error); ok {
			q.errors = append(q.errors, err.Error())
		}
	}
}

func TestCheckLeaks(t *testing.T) {
	q := &quiet{TB: t}
	checkLeaks(q, 0)
	stop := make(chan struct{})
	go func() { <-stop }()
	q.cleanup()
	if len(q.errors) != 1 || !strings.Contains(q.errors[0], "TestCheckLeaks") {
		t.Errorf("a leak was reported as %q", q.errors)
	}
	close(stop)
	q.errors = nil
	q.cleanup()
	if len(q.errors) != 0 {
		t.Errorf("reported without a leak: %q", q.errors)
	}
}
