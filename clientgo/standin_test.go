package clientgo_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// standIns maps this module's drop-in packages to the client-go packages that they replace.
var standIns = map[string]string{
	"cache":            "tools/cache",
	"informers":        "informers",
	"workqueue":        "util/workqueue",
	"dynamicinformer":  "dynamic/dynamicinformer",
	"metadatainformer": "metadata/metadatainformer",
}

// otherSignatures lists the functions whose results are types of ours; see their documentation.
var otherSignatures = map[string]bool{
	"NewReflector": true, "NewNamedReflector": true, "NewReflectorWithOptions": true, "NewNamespaceKeyedIndexerAndReflector": true,
	"WithChunkSize": true, // client-go does not export the name of its result
}

// newerNames lists the names that a client-go after 0.36 added to tools/cache, or 0.38 to tools/cache and util/workqueue.
// Programs import them from client-go, beside our package.
var newerNames = map[string]bool{
	"DeletedObject": true, "MutationCacheOptions": true, "NewIntegerResourceVersionMutationCacheWithOptions": true,
	"NewTypedSharedIndexInformer": true, "Object": true, "ShutDownEventHandler": true,
	"TypedFilteringResourceEventHandler": true, "TypedIndexFunc": true, "TypedIndexer": true,
	"TypedIndexerFuncToIndexerFunc": true, "TypedIndexers": true, "TypedIndexersToIndexers": true,
	"TypedResourceEventHandler": true, "TypedResourceEventHandlerDetailedFuncs": true,
	"TypedResourceEventHandlerFuncs": true, "TypedSharedIndexInformer": true,
	"GVRSyncResult": true, "NewShardedListWatch": true, "Pausable": true,
}

// aheadNames are names of client-go 0.38 that the packages have with every version.
var aheadNames = map[string]bool{
	"DynamicSharedInformerOption": true, "NewDynamicSharedInformerFactoryWithOptions": true, "WithShardSelector": true,
}

// A drop-in package has every exported name that client-go 0.36 has, of the same kind, and
// functions of the same types. So changing the import path is enough.
func TestStandIns(t *testing.T) {
	for folder, path := range standIns {
		ours, theirs := exported(t, folder), exported(t, clientGoFolder(t, path))
		for _, name := range slices.Sorted(maps.Keys(theirs)) {
			switch mine, ok := ours[name]; {
			case !ok && newerNames[name]:
			case !ok:
				t.Errorf("package %s has no %s: run go generate", folder, name)
			case mine != theirs[name] && !otherSignatures[name]:
				t.Errorf("package %s: %s is %s, in client-go %s", folder, name, mine, theirs[name])
			}
		}
		for name := range ours {
			if _, ok := theirs[name]; !ok && !aheadNames[name] {
				t.Errorf("package %s has %s, which client-go has not", folder, name)
			}
		}
	}
}

// The table in docs/migrating.md lists where every function went.
func TestMigratingTable(t *testing.T) {
	text, err := os.ReadFile("../docs/migrating.md")
	must(t, err)
	for _, path := range standIns {
		for name, what := range exported(t, clientGoFolder(t, path)) {
			if strings.HasPrefix(what, "func") && !bytes.Contains(text, []byte("`"+name+"`")) {
				t.Errorf("docs/migrating.md does not say what became of %s.%s", path, name)
			}
		}
	}
}

// clientGo returns the folder of client-go's module.
var clientGo = sync.OnceValues(func() (string, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/client-go").Output()
	return strings.TrimSpace(string(dir)), err
})

func clientGoFolder(t *testing.T, path string) string {
	t.Helper()
	dir, err := clientGo()
	must(t, err)
	return filepath.Join(dir, path)
}

// exported returns a folder's exported declarations by name: their kinds, and the types of functions.
func exported(t *testing.T, folder string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != folder:
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			declared(decl, found)
		}
		return nil
	}))
	return found
}

// declared adds a declaration to found.
func declared(decl ast.Decl, found map[string]string) {
	add := func(name *ast.Ident, what string) {
		if name.IsExported() {
			found[name.Name] = what
		}
	}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			add(d.Name, "func"+typesOf(d.Type.TypeParams)+typesOf(d.Type.Params)+typesOf(d.Type.Results))
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				add(s.Name, "type"+typesOf(s.TypeParams))
			case *ast.ValueSpec:
				for _, name := range s.Names {
					add(name, d.Tok.String())
				}
			}
		}
	}
}

// qualifier matches a package name in front of an identifier: files import one package under several names.
var qualifier = regexp.MustCompile(`\b\w+\.([A-Z])`)

// typesOf prints the types in a list.
func typesOf(list *ast.FieldList) string {
	if list == nil {
		return " ()"
	}
	var all []string
	for _, field := range list.List {
		var b bytes.Buffer
		if err := printer.Fprint(&b, token.NewFileSet(), field.Type); err != nil {
			panic(err)
		}
		for range max(len(field.Names), 1) {
			all = append(all, qualifier.ReplaceAllString(b.String(), "$1"))
		}
	}
	return " (" + strings.Join(all, ", ") + ")"
}
