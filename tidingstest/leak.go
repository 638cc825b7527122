package tidingstest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leakPatience is how long goroutines may take to end. They are only about to, but on a busy machine each of their
// steps may have to wait for its turn.
const leakPatience = 10 * time.Second

// CheckLeaks makes the test fail if, when it and the cleanups registered after this call are over, goroutines
// run that did not run now. So call it first. It waits a moment for goroutines that are about to end.
//
// It looks at the whole process and is therefore not for parallel tests. Inside a synctest bubble it is not
// needed: a bubble waits for its goroutines and reports those that cannot end.
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
		err := goleak.Find(before) // which takes a good part of a second to be sure of a leak
		for err != nil && time.Now().Before(deadline) {
			err = goleak.Find(before)
		}
		if err != nil {
			t.Error(err)
		}
	})
}
