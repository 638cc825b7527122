package diff

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const lastAppliedField = "metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]"

// TestLastAppliedIsHidden: an apply shows as what it changed, and not a second time as a change of the
// annotation.
func TestLastAppliedIsHidden(t *testing.T) {
	const copied = `"kubectl.kubernetes.io/last-applied-configuration":`
	for name, test := range map[string]struct {
		before, after string
		changes       []string
		hidden        []string
	}{
		"changed": {`{"metadata":{"annotations":{` + copied + `"1"}},"spec":1}`, `{"metadata":{"annotations":{` + copied + `"2"}},"spec":2}`,
			[]string{"spec"}, []string{lastAppliedField}},
		"first apply": {`{"metadata":{},"spec":1}`, `{"metadata":{"annotations":{` + copied + `"2"}},"spec":2}`, []string{"spec"}, []string{lastAppliedField}},
		"first apply, next to another": {`{"metadata":{"annotations":{"a":"b"}}}`, `{"metadata":{"annotations":{"a":"c",` + copied + `"2"}}}`,
			[]string{"metadata.annotations.a"}, []string{lastAppliedField}},
		"with the first annotation": {`{"metadata":{}}`, `{"metadata":{"annotations":{"a":"c",` + copied + `"2"}}}`, []string{"metadata.annotations"}, []string{lastAppliedField}},
		"gone":                      {`{"metadata":{"annotations":{` + copied + `"1"}}}`, `{"metadata":{"annotations":{}}}`, []string{"metadata.annotations"}, []string{lastAppliedField}},
		"the same":                  {`{"metadata":{"annotations":{` + copied + `"1"}},"spec":1}`, `{"metadata":{"annotations":{` + copied + `"1"}},"spec":2}`, []string{"spec"}, nil},
	} {
		before, after := parse(t, test.before), parse(t, test.after)
		result := Objects(before, after, Options{})
		var paths []string
		for _, c := range result.Changes {
			paths = append(paths, c.Path.String())
			if text, _ := json.Marshal(c); strings.Contains(string(text), "last-applied") {
				t.Errorf("%s: the copy is in %s", name, text)
			}
		}
		if !slices.Equal(paths, test.changes) || !slices.Equal(result.Hidden, test.hidden) {
			t.Errorf("%s: changes %v, hidden %v; want %v, %v", name, paths, result.Hidden, test.changes, test.hidden)
		}
		if text, _ := json.Marshal(before); string(text) != compact(t, test.before) {
			t.Errorf("%s: the input was written to", name)
		}
	}
	shown := Objects(parse(t, `{"metadata":{"annotations":{`+copied+`"1"}}}`), parse(t, `{"metadata":{"annotations":{`+copied+`"2"}}}`), Options{LastApplied: true})
	if len(shown.Changes) != 1 || shown.Changes[0].Path.String() != lastAppliedField || len(shown.Hidden) > 0 {
		t.Errorf("on demand: %+v", shown)
	}
}

func compact(t *testing.T, text string) string {
	t.Helper()
	out, err := json.Marshal(parse(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
