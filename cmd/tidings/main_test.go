package main

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the golden output in testdata")

// TestMain makes the command line a program for scripts: the test binary itself under another name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tidings": main})
}

// TestScripts runs each script of testdata with its own API server.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(t)
			testscript.Run(t, testscript.Params{
				Files: []string{file}, UpdateScripts: *update, RequireUniqueNames: true, Setup: cluster.setup,
				Cmds: map[string]func(*testscript.TestScript, bool, []string){"server": cluster.script, "normal": normal, "exits": exits, "await": await},
			})
		})
	}
}
