package tidingstest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leakPatience is how long goroutines may take to end. They are about to, but on a busy machine each step may have
// to wait to be scheduled.
const leakPatience = 10 * time.Second

// CheckLeaks fails the test if, after it and the cleanups registered after this call are done, goroutines are
// running that are not running now. So call it first. It gives goroutines that are about to end some time.
//
// It checks the whole process and is therefore not suitable for parallel tests. Inside a synctest bubble it is not
// needed: a bubble waits for its goroutines and reports those that are stuck.
func CheckLeaks(t testing.TB) {
	t.Helper()
	checkLeaks(t, leakPatience)
}

func checkLeaks(t testing.TB, patience time.Duration) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		t.Helper()
		deadline := time.Now().Add(patience)
		err := goleak.Find(before) // takes a good part of a second to confirm a leak
		for err != nil && time.Now().Before(deadline) {
			err = goleak.Find(before)
		}
		if err != nil {
			t.Error(err)
		}
	})
}
