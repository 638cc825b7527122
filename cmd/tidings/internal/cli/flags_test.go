package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestBadFlags(t *testing.T) {
	tests := map[string]string{
		"--bool=perhaps":    `error: --bool "perhaps": want true or false`,
		"--int=1.5":         `error: --int "1.5": want a whole number`,
		"--int64=x":         `error: --int64 "x": want a whole number`,
		"--float32=x":       `error: --float32 "x": want a number`,
		"--duration=15":     `error: --duration "15": want a duration such as 30s or 5m`,
		"--string-to-int=5": `error: --string-to-int "5": want a list such as name=5,other=10`,
		`--strings="a`:      `error: invalid argument "\"a" for "--strings" flag: `,
		"--unknown":         "error: unknown flag: --unknown",
	}
	for arg, want := range tests {
		command := &cobra.Command{Use: "tidings", Run: func(*cobra.Command, []string) {}}
		flags := command.Flags()
		flags.Bool("bool", false, "")
		flags.Int("int", 0, "")
		flags.Int64("int64", 0, "")
		flags.Float32("float32", 0, "")
		flags.Duration("duration", time.Second, "")
		flags.StringToInt("string-to-int", nil, "")
		flags.StringSlice("strings", nil, "")
		var stderr bytes.Buffer
		command.SetErr(&stderr)
		if code := Main(command, []string{arg}); code != ExitUsage || !strings.HasPrefix(stderr.String(), want) {
			t.Errorf("%s: code %d, %q, want %q", arg, code, stderr.String(), want)
		}
	}
}
