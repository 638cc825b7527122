package flags

import (
	"flag"
	"testing"
	"time"
)

func TestPositive(t *testing.T) {
	for _, tt := range []struct{ arg, want string }{
		{"-n=1", ""}, {"-d=1ns", ""}, {"-n=0", "-n 0: must be above zero"}, {"-n=-2", "-n -2: must be above zero"},
		{"-d=0", "-d 0s: must be above zero"}, {"-d=-1m", "-d -1m0s: must be above zero"},
	} {
		flags := flag.NewFlagSet("test", flag.ContinueOnError)
		flags.Int("n", 5, "")
		flags.Duration("d", time.Second, "")
		if err := flags.Parse([]string{tt.arg}); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := Positive(flags, "n", "d"); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.arg, got, tt.want)
		}
	}
}
