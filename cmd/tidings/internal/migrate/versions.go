package migrate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// clientGoModule is the module whose version decides which release of Tidings a program can use.
const clientGoModule = "k8s.io/client-go"

// checkVersions returns an error if the go.mod of the program in dir holds client-go below the
// version that Tidings needs: then no change of imports helps, and what has to be run first is
// said. It returns nil if there is no go.mod or it does not say, and if need is "".
func checkVersions(dir, need string) error {
	path, file := moduleOf(dir)
	if file == nil || need == "" {
		return nil
	}
	for _, r := range file.Replace {
		if r.Old.Path != clientGoModule || r.New.Version == "" || semver.Compare(r.New.Version, need) >= 0 {
			continue
		}
		return fmt.Errorf("%s replaces %s by %s, and Tidings needs %s or newer; run first:\n%s\n%s",
			path, clientGoModule, r.New.Version, need, dropReplaces(file, need), upgrade(need))
	}
	for _, r := range file.Require {
		if r.Mod.Path == clientGoModule && semver.Compare(r.Mod.Version, need) < 0 && !replaced(file) {
			return fmt.Errorf("%s requires %s %s, and Tidings needs %s or newer; run first:\n%s",
				path, clientGoModule, r.Mod.Version, need, upgrade(need))
		}
	}
	return nil
}

// moduleOf returns the go.mod of the module that dir is in; nil if there is none that can be read.
func moduleOf(dir string) (path string, file *modfile.File) {
	for {
		path = filepath.Join(dir, "go.mod")
		data, err := os.ReadFile(path)
		if err == nil {
			file, err := modfile.Parse(path, data, nil)
			if err != nil {
				return path, nil // the go command says what is wrong with it
			}
			return path, file
		}
		parent := filepath.Dir(dir)
		if !errors.Is(err, os.ErrNotExist) || parent == dir {
			return path, nil
		}
		dir = parent
	}
}

func replaced(file *modfile.File) bool {
	for _, r := range file.Replace {
		if r.Old.Path == clientGoModule {
			return true
		}
	}
	return false
}

// dropReplaces returns the commands that drop the replacements of Kubernetes' modules by older versions.
func dropReplaces(file *modfile.File, need string) string {
	var lines []string
	for _, r := range file.Replace {
		if strings.HasPrefix(r.Old.Path, "k8s.io/") && strings.HasPrefix(r.New.Version, "v0.") && semver.Compare(r.New.Version, need) < 0 {
			old := r.Old.Path
			if r.Old.Version != "" {
				old += "@" + r.Old.Version
			}
			lines = append(lines, "  go mod edit -dropreplace="+old)
		}
	}
	return strings.Join(lines, "\n")
}

// upgrade returns the commands that upgrade a program.
func upgrade(need string) string {
	return "  go get k8s.io/api@" + need + " k8s.io/apimachinery@" + need + " " + clientGoModule + "@" + need + "\n  go mod tidy"
}

// neededClientGo returns the oldest version of client-go that this program was built for: the minor
// version that its module requires; "" if the binary does not say.
func neededClientGo() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == clientGoModule {
			minor := strings.Split(strings.TrimPrefix(semver.MajorMinor(m.Version), "v0."), ".")[0]
			if _, err := strconv.Atoi(minor); err == nil {
				return "v0." + minor + ".0"
			}
		}
	}
	return ""
}
