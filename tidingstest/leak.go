package tidingstest

import (
	"testing"

	"go.uber.org/goleak"
)

// CheckLeaks makes the test fail if, when it and the cleanups registered after this call are over, goroutines
// run that did not run now. So call it first. It waits a moment for goroutines that are about to end.
//
// It looks at the whole process and is therefore not for parallel tests. Inside a synctest bubble it is not
// needed: a bubble waits for its goroutines and reports those that cannot end.
func CheckLeaks(t testing.TB) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		t.Helper()
		goleak.VerifyNone(t, before)
	})
}
