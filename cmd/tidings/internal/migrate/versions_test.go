package migrate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckVersions(t *testing.T) {
	for name, c := range map[string]struct {
		mod  string
		want []string // in the error; none means that there is none
	}{
		"new enough":   {"require k8s.io/client-go v0.36.3", nil},
		"not required": {"require k8s.io/api v0.20.0", nil},
		"too old": {"require k8s.io/client-go v0.34.1", []string{
			"requires k8s.io/client-go v0.34.1", "needs v0.36.0 or newer", "go get k8s.io/api@v0.36.0", "go mod tidy",
		}},
		"replaced": {"require k8s.io/client-go v0.37.0\nreplace k8s.io/client-go => k8s.io/client-go v0.35.2\nreplace k8s.io/api => k8s.io/api v0.35.2", []string{
			"replaces k8s.io/client-go by v0.35.2", "go mod edit -dropreplace=k8s.io/client-go\n", "go mod edit -dropreplace=k8s.io/api\n",
		}},
		"replaced by a folder": {"require k8s.io/client-go v0.34.1\nreplace k8s.io/client-go => ../client-go", nil},
		"replaced by newer":    {"require k8s.io/client-go v0.34.1\nreplace k8s.io/client-go => k8s.io/client-go v0.36.1", nil},
		"broken":               {"require (", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/program\n\ngo 1.26\n\n"+c.mod+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			below := filepath.Join(dir, "cmd", "program")
			if err := os.MkdirAll(below, 0o700); err != nil {
				t.Fatal(err)
			}
			err := checkVersions(below, "v0.36.0")
			if (err == nil) != (c.want == nil) {
				t.Fatalf("got %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
}
