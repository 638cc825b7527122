package news

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

var (
	noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	pods = resources.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod", Namespaced: true}
)

func pod(version, uid string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "spec": spec,
		"metadata": map[string]any{"name": "web", "namespace": "shop", "uid": uid, "resourceVersion": version},
	}}
}

func TestReplaced(t *testing.T) {
	e := NewModified(noon, pods, pod("1", "a", nil), pod("2", "b", nil), Options{})
	if e.Type != Replaced || e.OldResourceVersion != "1" || e.ResourceVersion != "2" {
		t.Errorf("%+v", e)
	}
	if e := NewModified(noon, pods, pod("1", "a", nil), pod("2", "a", nil), Options{}); e.Type != Modified {
		t.Errorf("same uid: %s", e.Type)
	}
}

// TestCleanForgets: what is remembered of objects without values of Secrets goes with the objects.
func TestCleanForgets(t *testing.T) {
	opts := Options{Clean: NewClean()}
	for n := range 3 {
		first := pod(fmt.Sprint(n), "a", map[string]any{"n": int64(n)})
		second := pod(fmt.Sprint(n, 0), "a", map[string]any{"n": int64(n + 1)})
		NewAdded(noon, pods, first, false, opts)
		if e := NewModified(noon, pods, first, second, opts); len(e.Changes) != 1 || len(opts.Clean.states) != 1 {
			t.Errorf("%d changes, %d states", len(e.Changes), len(opts.Clean.states))
		}
		NewDeleted(noon, pods, second, n == 1, opts)
		if len(opts.Clean.states) != 0 {
			t.Errorf("%d states of no pods", len(opts.Clean.states))
		}
	}
}

// TestObjectsWithoutAnything: an object without any of the expected fields is shown as far as possible.
func TestObjectsWithoutAnything(t *testing.T) {
	empty := &unstructured.Unstructured{}
	for _, e := range []Event{NewAdded(noon, pods, empty, true, Options{Objects: true}), NewModified(noon, pods, empty, empty, Options{}), NewDeleted(noon, pods, empty, true, Options{Objects: true})} {
		if text := (Text{}).Event(e); !strings.HasPrefix(string(text), "12:00:00.000 "+string(e.Type)) {
			t.Errorf("%q", text)
		}
		if !json.Valid((JSON{}).Event(e)) {
			t.Errorf("%s is no JSON", e.Type)
		}
	}
}

func TestLimits(t *testing.T) {
	before, after := map[string]any{}, map[string]any{}
	for i := range 50 {
		before[fmt.Sprintf("f%02d", i)], after[fmt.Sprintf("f%02d", i)] = int64(i), strings.Repeat("é", 5000)
	}
	e := NewModified(noon, pods, pod("1", "a", before), pod("2", "a", after), Options{})
	limits := Limits{Changes: 10, Value: 100}
	text := string(Text{Limits: limits}.Event(e))
	if len(text) > 10*250 || strings.Count(text, "~") != 10 || !strings.Contains(text, "+40 more") || !strings.Contains(text, "… (10,002 bytes)") || !utf8.ValidString(text) {
		t.Errorf("text of %d bytes:\n%s", len(text), text)
	}
	var line struct {
		OmittedChanges int
		Changes        []struct {
			Old, New             any
			OldLength, NewLength int
		}
	}
	if err := json.Unmarshal(JSON{Limits: limits}.Event(e), &line); err != nil {
		t.Fatal(err)
	}
	if line.OmittedChanges != 40 || len(line.Changes) != 10 {
		t.Errorf("%d changes, %d omitted", len(line.Changes), line.OmittedChanges)
	}
	if c := line.Changes[3]; c.Old != 3.0 || c.OldLength != 0 || c.NewLength != 10002 || !strings.HasPrefix(c.New.(string), `"éé`) || len(c.New.(string)) > 100 {
		t.Errorf("%+v", c)
	}
	if whole := string((Text{}).Event(e)); strings.Count(whole, "~") != 50 || strings.Contains(whole, "…") {
		t.Error("without limits something is missing")
	}
}

// TestNothingReachesTheTerminal: the content of a hostile object cannot move the cursor or fake a line.
func TestNothingReachesTheTerminal(t *testing.T) {
	evil := "x\x1b[2J\r\n\u009b31m\u202e\x7f\U000E0001\u200b"
	before, after := pod("1", "a", map[string]any{evil: evil}), pod("2", "a", map[string]any{evil: evil + "2", "l": []any{map[string]any{"name": evil}}})
	for _, o := range []*unstructured.Unstructured{before, after} {
		o.SetName(evil)
		metadata := o.Object["metadata"].(map[string]any)
		metadata["managedFields"] = []any{map[string]any{"manager": evil, "subresource": evil, "fieldsV1": map[string]any{"f:spec": map[string]any{}}}}
	}
	r := pods
	r.Resource = evil
	e := NewModified(noon, r, before, after, Options{})
	text := string((Text{}).Event(e)) + string((Text{}).Status(Status{Time: noon, Resource: r, Namespace: evil, Message: evil}))
	if strings.ContainsAny(text, "\x1b\r\u009b\u202e") {
		t.Errorf("%q", text)
	}
	for line := range strings.Lines(text) {
		if !regexp.MustCompile(`^(12:00:00\.000 |    [~+-] |        \d+ [+-] |    phase=)`).MatchString(line) {
			t.Errorf("a line of its own: %q", line)
		}
	}
	lines := string((JSON{}).Event(e)) + string((JSON{}).Status(Status{Time: noon, Resource: r, Namespace: evil, Message: evil}))
	if strings.Count(lines, "\n") != 2 || strings.ContainsAny(lines, "\x1b\r\u009b\u202e\x7f") {
		t.Errorf("%q", lines)
	}
	for line := range strings.Lines(lines) {
		var v struct{ Name, Message string }
		if err := json.Unmarshal([]byte(line), &v); err != nil || v.Name+v.Message != evil {
			t.Errorf("%q says %q, %v", line, v, err)
		}
	}
}

func TestColors(t *testing.T) {
	e := NewDeleted(noon, pods, pod("1", "a", nil), true, Options{})
	plain, colored := string((Text{}).Event(e)), string(Text{Colors: true}.Event(e))
	if strings.Contains(plain, "\x1b") || !strings.Contains(colored, "\x1b[31mDELETED \x1b[0m") {
		t.Errorf("%q\n%q", plain, colored)
	}
	if stripped := regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(colored, ""); stripped != plain {
		t.Errorf("colors change the text: %q", stripped)
	}
}

func TestHiddenIsTold(t *testing.T) {
	before, after := pod("1", "a", nil), pod("2", "a", nil)
	after.Object["metadata"].(map[string]any)["managedFields"] = []any{}
	if text := string((Text{}).Event(NewModified(noon, pods, before, after, Options{}))); !strings.Contains(text, "no change except in metadata.managedFields") {
		t.Error(text)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -100: "-100", -1000: "-1,000"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}

// TestSchemaIsDocumented: every field of the JSON lines is in the documentation.
func TestSchemaIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../../../docs/tail.md")
	if err != nil {
		t.Fatal(err)
	}
	full := Event{Time: noon, Type: Modified, Resource: pods, Namespace: "n", Name: "n", UID: "u", ResourceVersion: "2", OldResourceVersion: "1",
		Generation: 1, Initial: true, FinalStateUnknown: true, By: diff.Manager{Name: "m", Operation: "Update", Subresource: "status"}, Hidden: []string{"x"},
		Changes: []diff.Change{{Op: diff.Changed, Old: "same\nlong\nlong", New: "same\nwide\nlong\nmore"}, {}}, Object: map[string]any{"kind": "Pod"}}
	var s summary
	s.event(map[string]any{"type": "t", "reason": "r", "message": "m", "count": int64(2), "involvedObject": map[string]any{"kind": "k", "name": "n"}})
	s.state(object(t, `{apiVersion: v1, kind: X, metadata: {name: x}, spec: {replicas: 1, type: x}, status: {phase: x, reason: x, conditions: [{type: Ready, status: "True"}]}}`).Object)
	s.workload(object(t, `{apiVersion: v1, kind: X, metadata: {name: x}, spec: {containers: [{image: x}], image: x, nodeName: x, holderIdentity: x, schedule: x},
status: {containerStatuses: [{restartCount: 1}]}}`).Object)
	s.data(map[string]any{"data": map[string]any{"k": "v"}})
	full.Summary = s.details
	var fields []string
	lines := append(JSON{Limits{Changes: 1, Value: 2}}.Event(full), (JSON{}).Status(Status{Namespace: "n", ResourceVersion: "1", Kind: Synced, Resource: pods})...)
	for _, match := range regexp.MustCompile(`"(\w+)":`).FindAllSubmatch(lines, -1) {
		fields = append(fields, string(match[1]))
	}
	for _, kind := range []StatusKind{Synced, Missing, Failing, Reconnected, Relisted, Outage, Stale, Recovered} {
		fields = append(fields, string(kind))
	}
	for _, op := range []diff.Op{diff.Added, diff.Removed, diff.Changed, diff.Reordered} {
		fields = append(fields, string(op))
	}
	for _, field := range append(fields, Schema) {
		if !strings.Contains(string(doc), "`"+field+"`") && !strings.Contains(string(doc), "`\""+field+"\"`") {
			t.Errorf("docs/tail.md does not tell what %q is", field)
		}
	}
}
