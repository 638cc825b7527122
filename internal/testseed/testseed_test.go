package testseed

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// recorder is a test that only records its calls.
type recorder struct {
	testing.TB
	logs  []string
	fatal string
}

func (r *recorder) Helper() {}

func (r *recorder) Logf(format string, args ...any) {
	r.logs = append(r.logs, fmt.Sprintf(format, args...))
}

// Fatal ends the calling goroutine, as that of a test does.
func (r *recorder) Fatal(args ...any) {
	r.fatal = fmt.Sprint(args...)
	panic(r)
}

func TestSeedIsNewAndCanBeRepeated(t *testing.T) {
	t.Setenv(Variable, "")
	r := &recorder{TB: t}
	seed := Seed(r)
	if again := Seed(r); again == seed {
		t.Errorf("two calls gave the seed %d", seed)
	}
	want := fmt.Sprintf("%s=%d", Variable, seed)
	if !strings.Contains(r.logs[0], want) {
		t.Errorf("logged %q, want %q in it", r.logs[0], want)
	}
	t.Setenv(Variable, fmt.Sprint(seed))
	if got := Seed(r); got != seed {
		t.Errorf("got %d, want %d", got, seed)
	}
	t.Setenv(Variable, "0xff")
	if got := Seed(r); got != 255 {
		t.Errorf("got %d, want 255", got)
	}
}

func TestSeedOfNoNumber(t *testing.T) {
	t.Setenv(Variable, "seven")
	r := &recorder{TB: t}
	defer func() {
		if recover() != r || !strings.Contains(r.fatal, Variable) || !strings.Contains(r.fatal, "seven") {
			t.Errorf("failed with %q, want a failure that names the variable and its value", r.fatal)
		}
	}()
	Seed(r)
}

func TestEach(t *testing.T) {
	var seeds []uint64
	collect := func(t *testing.T, seed uint64) { seeds = append(seeds, seed) }
	t.Setenv(Variable, "")
	Each(t, 5, collect)
	if slices.Sort(seeds); len(slices.Compact(seeds)) != 5 {
		t.Errorf("the seeds were %d, want five different ones", seeds)
	}
	seeds = nil
	t.Setenv(Variable, "7")
	Each(t, 5, collect)
	if !slices.Equal(seeds, []uint64{7}) {
		t.Errorf("the seeds were %d, want 7 once", seeds)
	}
}
