package assert

import (
	"sync"
	"testing"
)

func TestReached(t *testing.T) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { Reached("a test runs") })
	}
	all.Wait()
	want := int64(0)
	if On {
		want = 8
	}
	if got := Branches()["a test runs"]; got != want {
		t.Errorf("reached %d times, want %d", got, want)
	}
}
