package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wanted describes the values of flags by pflag's name of their type. Flags of other types take any
// value, or check it themselves.
var wanted = map[string]string{
	"bool":        "true or false",
	"int":         "a whole number",
	"int64":       "a whole number",
	"float32":     "a number",
	"duration":    "a duration such as 30s or 5m",
	"stringToInt": "a list such as name=5,other=10",
}

// flagError returns the error for a flag that could not be parsed, in other words than pflag's,
// which name functions of package strconv.
func flagError(_ *cobra.Command, err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	want, ok := wanted[invalid.GetFlag().Value.Type()]
	if !ok {
		return err
	}
	return fmt.Errorf("--%s %q: want %s", invalid.GetFlag().Name, invalid.GetValue(), want)
}
