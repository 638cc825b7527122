package blame

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/cmd/tidings/internal/diff"
)

// TestJSON: a program gets what Text says: each field, who owns it since when, and what set it.
func TestJSON(t *testing.T) {
	const written = "2026-01-02T12:00:00Z"
	object := map[string]any{
		"metadata": map[string]any{"name": "web\x1b", "managedFields": []any{map[string]any{
			"manager": "gitops", "operation": "Apply", "subresource": "scale", "time": written,
			"fieldsV1": map[string]any{"f:spec": map[string]any{"f:replicas": map[string]any{}}}}}},
		"spec": map[string]any{"replicas": int64(2), "args": []any{}},
	}
	at := time.Date(2026, 1, 2, 13, 0, 0, 5000, time.FixedZone("", 3600))
	text, err := JSON(object, map[string]Set{"spec.replicas": {Time: at, By: diff.Manager{Name: "gitops",
		Operation: "Apply"}, Old: int64(5)}})
	if err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"schema": Schema, "fields": []any{
		map[string]any{"path": "metadata.name", "value": "web\x1b"},
		map[string]any{"path": "spec.args", "value": []any{}},
		map[string]any{"path": "spec.replicas", "value": 2.0, "owners": []any{map[string]any{"name": "gitops",
			"operation": "Apply", "subresource": "scale", "time": written}},
			"set": map[string]any{"time": "2026-01-02T12:00:00.000005Z", "old": 5.0,
				"manager": map[string]any{"name": "gitops", "operation": "Apply"}}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s", text)
	}
	if strings.Contains(string(text), "\x1b") {
		t.Error("an escape sequence is not escaped")
	}
	doc, err := os.ReadFile("../../../../docs/blame.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`"(\w+)":`).FindAllSubmatch(text, -1) {
		if !strings.Contains(string(doc), "`"+string(name[1])+"`") {
			t.Errorf("docs/blame.md does not tell what %s is", name[1])
		}
	}
}
