package workspace

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The packages that this project replaces, and those below clientgo that replace them.
var (
	Factories = []string{"informers", "dynamic/dynamicinformer", "metadata/metadatainformer"}
	Tools     = []string{"tools/cache", "util/workqueue"}
)

// Unreplaced is the name of imports that are left as they are.
const Unreplaced = "upstream"

// importReplacer replaces the imports of packages of client-go, except those under Unreplaced.
func importReplacer(packages []string) *strings.Replacer {
	var pairs []string
	for _, p := range packages {
		ours := p[strings.LastIndex(p, "/")+1:]
		original := `"k8s.io/client-go/` + p + `"`
		pairs = append(pairs, Unreplaced+" "+original, Unreplaced+" "+original)
		pairs = append(pairs, original, `"github.com/tidings/tidings/clientgo/`+ours+`"`)
	}
	return strings.NewReplacer(pairs...)
}

// ReplaceImports replaces imports in all Go files below a folder that end in suffix.
func ReplaceImports(folder, suffix string, packages ...string) error {
	replacer := importReplacer(packages)
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, suffix) {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		replaced := replacer.Replace(string(text))
		if replaced == string(text) {
			return nil
		}
		return os.WriteFile(path, []byte(replaced), 0o644)
	})
}
