package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMigrate runs each script of testdata/migrate on a small program. The modules that these
// programs use are small stand-ins with the API of the real ones, so that loading them takes no
// time; TestExamples in internal/migrate uses the real ones.
func TestMigrate(t *testing.T) {
	modules, err := filepath.Abs("testdata/migrate/modules")
	if err != nil {
		t.Fatal(err)
	}
	environment := goEnvironment(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/migrate", UpdateScripts: *update, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, environment...)
			env.Setenv("BIN", filepath.SplitList(env.Getenv("PATH"))[0]) // has only the programs of TestMain
			return os.CopyFS(filepath.Join(env.WorkDir, "modules"), os.DirFS(modules))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// goEnvironment lets scripts use this machine's go command offline.
func goEnvironment(t *testing.T) []string {
	t.Helper()
	names := []string{"GOCACHE", "GOMODCACHE", "GOROOT"}
	values, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	environment := []string{"GOPROXY=off", "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local", "GORACE=atexit_sleep_ms=0"}
	for i, value := range strings.Split(strings.TrimSpace(string(values)), "\n") {
		environment = append(environment, names[i]+"="+value)
	}
	return environment
}
