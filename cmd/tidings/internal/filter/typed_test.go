package filter

import (
	"reflect"
	"strings"
	"testing"
)

// TestParse: flags can be typed in one line, and are shown as they would be typed.
func TestParse(t *testing.T) {
	for line, want := range map[string]Flags{
		"":                                       {},
		"  --all ":                               {All: true},
		"--changes spec,status --op add":         {Sections: []string{"spec", "status"}, Ops: []string{"add"}},
		`--path '**.image' --manager "kubectl*"`: {Paths: []string{"**.image"}, Managers: []string{"kubectl*"}},
		`--where 'new.a == "b c"' --grep it\ is`: {Where: `new.a == "b c"`, Text: "it is"},
		`--ignore=status --grep 'it'\''s'`:       {Ignore: []string{"status"}, Text: "it's"},
	} {
		got, err := Parse(line)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
		if again, err := Parse(got.String()); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s is shown as %s, which is %+v, %v", line, got, again, err)
		}
	}
	for line, want := range map[string]string{
		"--changes 'spec": "a quote is not closed", "web": `"web" is no flag; want --changes`,
		"--colour red": "unknown flag: --colour",
		"--grep":       "flag needs an argument: --grep", `a\`: "not closed",
	} {
		if _, err := Parse(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}
