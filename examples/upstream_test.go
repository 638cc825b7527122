// Package examples_test checks the examples that are written for client-go against client-go itself.
package examples_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// replaced maps the import paths of the examples to client-go's.
var replaced = strings.NewReplacer(
	"github.com/tidings/tidings/clientgo/informers", "k8s.io/client-go/informers",
	"github.com/tidings/tidings/clientgo/cache", "k8s.io/client-go/tools/cache",
	"github.com/tidings/tidings/clientgo/workqueue", "k8s.io/client-go/util/workqueue",
	"github.com/tidings/tidings/clientgo/dynamicinformer", "k8s.io/client-go/dynamic/dynamicinformer",
)

// TestUpstreamPrintsTheSame runs the tests of these examples with client-go's own packages: nothing
// but the imports may differ.
func TestUpstreamPrintsTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("links every example once more")
	}
	files, err := filepath.Glob("*/clientgo.go")
	if err != nil || len(files) != 7 {
		t.Fatalf("%d examples with client-go's names, want 7: %v", len(files), err)
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	args := []string{"test", "-run=Example_clientGo", "-count=1", "-overlay=" + filepath.Join(dir, "overlay.json")}
	if raceEnabled {
		args = append(args, "-race") // so that compiled dependencies are reused
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		before := replaced.Replace(string(text))
		if before == string(text) {
			t.Errorf("%s imports nothing of ours", file)
		}
		example := filepath.Dir(file)
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		overlay.Replace[path] = filepath.Join(dir, example+".go")
		if err := os.WriteFile(overlay.Replace[path], []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "./"+example)
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
	if err != nil || strings.Count(string(out), "ok  \t") != len(files) || strings.Contains(string(out), "no tests to run") {
		t.Errorf("%v\n%s", err, out)
	}
}
