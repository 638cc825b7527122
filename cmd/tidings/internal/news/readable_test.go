package news

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
)

// TestReadable: what changed is said as a person would say it, each change once.
func TestReadable(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		want          []string
	}{
		"a condition": {
			`{status: {conditions: [{type: Ready, status: "False", reason: Starting, message: soon, lastTransitionTime: "1"}]}}`,
			`{status: {conditions: [{type: Ready, status: "True", reason: Up, message: it runs, lastTransitionTime: "2"}]}}`,
			[]string{"Ready: False → True (Up: it runs)"},
		},
		"the message of a condition": {
			`{status: {conditions: [{type: Ready, status: "False", message: one}]}}`,
			`{status: {conditions: [{type: Ready, status: "False", message: two}]}}`,
			[]string{"Ready: False (two)"},
		},
		"the first conditions": {
			`{status: {}}`,
			`{status: {conditions: [{type: Ready, status: "False"}, {type: Scheduled, status: "True", reason: Bound}]}}`,
			[]string{"Ready: False", "Scheduled: True (Bound)"},
		},
		"one more condition": {
			`{status: {conditions: [{type: Ready, status: "True"}]}}`,
			`{status: {conditions: [{type: Ready, status: "True"}, {type: Full, status: "Unknown"}]}}`,
			[]string{"Full: Unknown"},
		},
		"a container that starts": {
			`{status: {containerStatuses: [{name: web, ready: false, restartCount: 0, state: {waiting: {reason: Pulling}}}]}}`,
			`{status: {containerStatuses: [{name: web, ready: true, restartCount: 1, state: {running: {startedAt: "1"}}}]}}`,
			[]string{"web: waiting Pulling → running, ready, restarts 1"},
		},
		"images": {
			`{spec: {containers: [{name: web, image: "a:1"}, {name: log, image: "b:1"}]}}`,
			`{spec: {containers: [{name: web, image: "a:2"}, {name: log, image: "b:2"}]}}`,
			[]string{"web: image a:1 → a:2", "log: image b:1 → b:2"},
		},
		"a deletion that was requested": {
			`{metadata: {name: web}}`,
			`{metadata: {name: web, deletionTimestamp: "2026-01-01T00:00:30Z", deletionGracePeriodSeconds: 30}}`,
			[]string{"being deleted: until 2026-01-01T00:00:30Z, a grace period of 30s"},
		},
		"anything else": {
			`{spec: {replicas: 1, gone: x}}`, `{spec: {replicas: 2, "new": {a: 1}}}`,
			[]string{"-spec.gone: x", `+spec.new: {"a":1}`, "spec.replicas: 1 → 2"},
		},
		"a condition whose time alone changed": {
			`{status: {conditions: [{type: Ready, status: "True", lastProbeTime: "1"}]}}`,
			`{status: {conditions: [{type: Ready, status: "True", lastProbeTime: "2"}]}}`,
			[]string{"status.conditions[type=Ready].lastProbeTime: 1 → 2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Readable(diff.Objects(tree(t, c.before), tree(t, c.after), diff.Options{}).Changes, 80)
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func tree(t *testing.T, text string) (out map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
