// Package flags checks the flags of the commands.
package flags

import (
	"flag"
	"fmt"
	"time"
)

// Positive returns an error that names the first of these flags, of numbers or durations, that is not above zero.
func Positive(flags *flag.FlagSet, names ...string) error {
	for _, name := range names {
		value := flags.Lookup(name).Value
		positive := false
		switch n := value.(flag.Getter).Get().(type) {
		case int:
			positive = n > 0
		case time.Duration:
			positive = n > 0
		}
		if !positive {
			return fmt.Errorf("-%s %s: must be above zero", name, value)
		}
	}
	return nil
}
