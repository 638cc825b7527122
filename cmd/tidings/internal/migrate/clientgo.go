package migrate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"
)

const (
	ours     = "github.com/tidings/tidings"
	clientGo = "k8s.io/client-go/"
)

// replacement is a package that has every name of one of client-go's, except for lackedByOurs.
type replacement struct {
	path string
	// changes reports whether a name behaves differently in the new package. Migrating a file that
	// uses no such name gains nothing.
	changes func(name string) bool
}

// replacements maps the import paths of client-go's packages to their replacements.
var replacements = withGroups(map[string]replacement{
	clientGo + "informers":                 {ours + "/clientgo/informers", makesFactory},
	clientGo + "tools/cache":               {ours + "/clientgo/cache", makesInformer},
	clientGo + "util/workqueue":            {ours + "/clientgo/workqueue", makesQueue},
	clientGo + "dynamic/dynamicinformer":   {ours + "/clientgo/dynamicinformer", makesFactory},
	clientGo + "metadata/metadatainformer": {ours + "/clientgo/metadatainformer", makesFactory},
})

// withGroups adds the packages for API groups, whose constructors make informers.
func withGroups(to map[string]replacement) map[string]replacement {
	for _, folder := range groupPackages {
		to[clientGo+"informers/"+folder] = replacement{ours + "/clientgo/informers/" + folder, makesGroupInformer}
	}
	return to
}

// changeable reports whether files that import the package may change.
func changeable(path string) bool {
	return replacements[path].path != "" || path == managerPackage || path == controllerRuntime || path == cachePackage
}

// makesFactory is for the packages with factories. Their option type is different, so a file that
// mentions it has to change too.
func makesFactory(name string) bool {
	return strings.HasPrefix(name, "New") || strings.HasPrefix(name, "With") || name == "SharedInformerOption"
}

// unchangedConstructors lists constructors in tools/cache whose results are the same in both packages.
var unchangedConstructors = []string{
	"NewListWatchFromClient", "NewFilteredListWatchFromClient", "NewObjectName", "NewInformerName", "NewGenericLister", "NewRetryWithDeadline",
	"NewTypedSharedIndexInformer", "NewHeap", "NewUndeltaStore", "NewTTLStore", "NewExpirationStore", "NewFakeExpirationStore",
	"NewCacheMutationDetector", "NewIntegerResourceVersionMutationCache", "NewIntegerResourceVersionMutationCacheWithOptions",
}

func makesInformer(name string) bool {
	return name == "New" || strings.HasPrefix(name, "New") && !slices.Contains(unchangedConstructors, name)
}

// makesQueue is for the package with queues. The type of plain queues is different, so a file that
// mentions it has to change too.
func makesQueue(name string) bool {
	return strings.Contains(name, "New") && !strings.HasSuffix(name, "RateLimiter") || name == "Typed" || name == "Type"
}

// clientGo changes the import paths of packages whose constructors the file calls.
func (f *file) clientGo() {
	used := f.uses()
	f.noteReflectorType(used[clientGo+"tools/cache"])
	for _, spec := range f.syntax.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil || spec.Name != nil && spec.Name.Name == "_" {
			continue
		}
		to, ok := replacements[path]
		if !ok || f.lacksInGroup(path, used[path]) ||
			!slices.ContainsFunc(used[path], func(use use) bool { return to.changes(use.name) }) {
			if !f.generatedFactories(spec, path, used[path]) {
				f.noteOtherEngine(path, used[path])
			}
			continue
		}
		text := strconv.Quote(to.path) + f.keepLacked(spec, path, used[path])
		f.edits = append(f.edits, edit{from: spec.Path.Pos(), to: spec.Path.End(), text: text, about: path})
		f.requires = append(f.requires, ours)
		f.clientGains(path, used[path])
	}
}

// noteReflectorType notes uses of the one type that NewReflector no longer returns: watch error
// handlers take client-go's type.
func (f *file) noteReflectorType(used []use) {
	for _, u := range used {
		if u.name == "Reflector" && f.packageMakesReflector() {
			f.note(u.at, "if this is a result of NewReflector, its type becomes %s/clientgo.Reflector", ours)
		}
	}
}

// packageMakesReflector reports whether any file of the package, with its imports as they are now,
// calls NewReflector or one of its relatives.
func (f *file) packageMakesReflector() bool {
	for _, obj := range f.pkg.TypesInfo.Uses {
		if obj.Pkg() != nil && obj.Pkg().Path() == clientGo+"tools/cache" && strings.HasPrefix(obj.Name(), "New") && strings.Contains(obj.Name(), "Reflector") {
			return true
		}
	}
	return false
}

// use is one use of a name of an imported package.
type use struct {
	name string
	at   token.Pos
}

// uses returns the names that the file uses, by package.
func (f *file) uses() map[string][]use {
	found := map[string][]use{}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		obj := f.pkg.TypesInfo.Uses[id]
		if obj == nil || obj.Pkg() == nil || obj.Parent() != obj.Pkg().Scope() { // not a package-level name
			return true
		}
		if _, isName := obj.(*types.PkgName); !isName {
			found[obj.Pkg().Path()] = append(found[obj.Pkg().Path()], use{id.Name, id.Pos()})
		}
		return true
	})
	return found
}

// noteOtherEngine notes informers that keep running on client-go's engine, because none of the
// replaced packages makes them.
func (f *file) noteOtherEngine(path string, used []use) {
	switch {
	case strings.HasPrefix(path, clientGo+"informers/"):
		for _, u := range used {
			if makesGroupInformer(u.name) {
				f.note(u.at, "%s.%s runs on client-go's engine: take the informer from a factory", lastElement(path), u.name)
			}
		}
	case strings.Contains(path, "/informers/externalversions/") && !ast.IsGenerated(f.syntax):
		for _, u := range used {
			if makesGroupInformer(u.name) {
				f.note(u.at, "%s.%s runs on client-go's engine: take the informer from a clientgo.NewGroupFactory, see docs/migrating.md", lastElement(path), u.name)
			}
		}
	}
}

// lacksInGroup reports whether the file uses a name of a group's package that client-go added in 0.37, and that the
// package in its place lacks.
func (f *file) lacksInGroup(path string, used []use) bool {
	return strings.HasPrefix(path, clientGo+"informers/") && slices.ContainsFunc(used, func(u use) bool {
		kind := strings.TrimPrefix(strings.TrimPrefix(u.name, "New"), "Filtered")
		return strings.HasPrefix(kind, "Typed") || slices.Contains(lackedKinds, strings.TrimSuffix(kind, "Informer"))
	})
}

// makesGroupInformer is for the group packages below a package with factories.
func makesGroupInformer(name string) bool {
	return strings.HasPrefix(name, "New") && strings.HasSuffix(strings.TrimSuffix(name, "WithOptions"), "Informer")
}

// lastElement returns the last two elements of the path of a group's informers, such as "core/v1".
func lastElement(path string) string {
	parts := strings.Split(path, "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}
