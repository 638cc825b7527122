package controlplane

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestStalledBuild: a build has all the time that it needs as long as it goes on; when it does not,
// the error says why, and that another run continues.
func TestStalledBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &buildProgress{}
		ctx, cancel := p.untilStalled(t.Context())
		defer cancel()
		for range 10 {
			time.Sleep(stallTime - progressEvery)
			if _, err := p.Write([]byte("example.com/package\n")); err != nil {
				t.Fatal(err)
			}
			if ctx.Err() != nil {
				t.Fatal("ended although it goes on")
			}
		}
		time.Sleep(stallTime + 2*progressEvery)
		synctest.Wait()
		err := p.explain(ctx, errors.New("signal: killed"))
		if !errors.Is(err, errStalled) || !strings.Contains(err.Error(), "run it again, and it goes on from there") {
			t.Errorf("got %v", err)
		}
		if strings.Contains(err.Error(), "signal: killed") {
			t.Errorf("%v", err)
		}
	})
}

// TestFailedBuild: the go command's own error is reported as it is.
func TestFailedBuild(t *testing.T) {
	p := &buildProgress{}
	_, _ = p.Write([]byte("go: no such module\n"))
	err := p.explain(context.Background(), errors.New("exit status 1"))
	if err == nil || err.Error() != "exit status 1: go: no such module" {
		t.Errorf("got %v", err)
	}
}
