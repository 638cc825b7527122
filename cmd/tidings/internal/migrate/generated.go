package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// generatedFactory is a package with a factory that informer-gen has generated: what a package in its place needs to
// know of it.
type generatedFactory struct {
	pkg *types.Package
	// newFunc is the type of the functions that InformerFor takes, client that of the clientset.
	newFunc, client *types.TypeName
	// groups are the methods of the factory that return a group's informers, in order.
	groups []group
}

type group struct {
	method string
	result *types.TypeName
}

// factoryMethods are the methods of generated factories, of all generators, that a group factory has. The rest of them
// return groups.
var factoryMethods = []string{
	"Start", "StartWithContext", "Shutdown", "WaitForCacheSync", "WaitForCacheSyncWithContext", "InformerFor",
	"InformerName", "ForResource",
}

// factoryOptions are the options of generated factories that package clientgo has, under the same names.
var factoryOptions = []string{
	"WithCustomResyncConfig", "WithTweakListOptions", "WithNamespace", "WithTransform", "WithInformerName",
	"WithShardSelector",
}

// factoryConstructors are the constructors of generated factories.
var factoryConstructors = []string{
	"NewSharedInformerFactory", "NewFilteredSharedInformerFactory", "NewSharedInformerFactoryWithOptions",
}

var errNoFactory = errors.New("it does not have the form that informer-gen gives a factory")

// generatedFactoryOf returns what is known of a package with a generated factory, or an error that says why there can be
// no package in its place.
func generatedFactoryOf(pkg *types.Package) (*generatedFactory, error) {
	g := &generatedFactory{pkg: pkg}
	client, err := clientOf(pkg)
	if err != nil {
		return nil, err
	}
	g.client = client
	factory := pkg.Scope().Lookup("SharedInformerFactory")
	if factory == nil || pkg.Scope().Lookup("SharedInformerOption") == nil {
		return nil, errNoFactory
	}
	methods, ok := factory.Type().Underlying().(*types.Interface)
	if !ok {
		return nil, errNoFactory
	}
	for method := range methods.Methods() {
		switch result, ok := groupResult(method); {
		case method.Name() == "InformerFor":
			params := method.Signature().Params()
			if params.Len() != 2 || namedOf(params.At(1).Type()) == nil {
				return nil, errNoFactory
			}
			g.newFunc = namedOf(params.At(1).Type())
		case slices.Contains(factoryMethods, method.Name()):
		case ok:
			g.groups = append(g.groups, group{method.Name(), result})
		default:
			return nil, fmt.Errorf("its factory has the method %s, which no generator makes", method.Name())
		}
	}
	if g.newFunc == nil {
		return nil, errNoFactory
	}
	return g, g.checkNames()
}

// clientOf returns the interface of the clientset that a generated factory is made of.
func clientOf(pkg *types.Package) (*types.TypeName, error) {
	constructor, ok := pkg.Scope().Lookup("NewSharedInformerFactoryWithOptions").(*types.Func)
	if !ok || constructor.Signature().Params().Len() != 3 || !constructor.Signature().Variadic() {
		return nil, errNoFactory
	}
	client := namedOf(constructor.Signature().Params().At(0).Type())
	if client == nil || client.Name() != "Interface" {
		return nil, errors.New("its client is not the interface of a generated clientset")
	}
	return client, nil
}

// checkNames returns an error if the package exports what a package in its place cannot have.
func (g *generatedFactory) checkNames() error {
	option := g.pkg.Scope().Lookup("SharedInformerOption").Type()
	for _, name := range g.pkg.Scope().Names() {
		obj := g.pkg.Scope().Lookup(name)
		if !obj.Exported() || slices.Contains(factoryOptions, name) || slices.Contains(factoryConstructors, name) {
			continue
		}
		switch obj := obj.(type) {
		case *types.Var:
			return fmt.Errorf("it has the variable %s, of which there can be only one", name)
		case *types.Func:
			if mentions(obj.Signature(), option) {
				return fmt.Errorf("it has the option or constructor %s, which no generator makes", name)
			}
		}
	}
	return nil
}

// groupResult returns the interface of a group that a method returns.
func groupResult(method *types.Func) (*types.TypeName, bool) {
	signature := method.Signature()
	if signature.Params().Len() != 0 || signature.Results().Len() != 1 {
		return nil, false
	}
	result := namedOf(signature.Results().At(0).Type())
	return result, result != nil && result.Name() == "Interface"
}

// namedOf returns the name of a type, or nil if it has none of a package.
func namedOf(t types.Type) *types.TypeName {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return nil
	}
	return named.Obj()
}

// mentions reports whether a function takes or returns a type, or a slice of it.
func mentions(signature *types.Signature, t types.Type) bool {
	for _, of := range []*types.Tuple{signature.Params(), signature.Results()} {
		for v := range of.Variables() {
			is := types.Unalias(v.Type())
			if slice, ok := is.(*types.Slice); ok {
				is = types.Unalias(slice.Elem())
			}
			if types.Identical(is, t) {
				return true
			}
		}
	}
	return false
}

// program is what the files to migrate have in common.
type program struct {
	// optionUsers are functions that the program uses and that take or return options of a generated factory, by the path
	// of its package, if they are of packages that are not among those to migrate: they would not know ours.
	optionUsers map[string]string
	// standIns are the paths of the generated packages that stand-ins were made for, by folder.
	standIns map[string]string
}

func newProgram(pkgs []*packages.Package) *program {
	p := &program{optionUsers: map[string]string{}, standIns: map[string]string{}}
	migrated := map[string]bool{}
	for _, pkg := range pkgs {
		migrated[pkg.PkgPath] = pkg.Module != nil && pkg.Module.Main
	}
	for _, pkg := range pkgs {
		if pkg.TypesInfo == nil {
			continue
		}
		for _, obj := range pkg.TypesInfo.Uses {
			if fn, ok := obj.(*types.Func); ok && fn.Pkg() != nil && !migrated[fn.Pkg().Path()] {
				p.addOptionUser(pkg.Types, fn)
			}
		}
	}
	return p
}

// addOptionUser adds a function that a package uses, if it takes or returns options of a generated factory.
func (p *program) addOptionUser(pkg *types.Package, fn *types.Func) {
	for _, imported := range pkg.Imports() {
		option := imported.Scope().Lookup("SharedInformerOption")
		if option != nil && imported.Path() != fn.Pkg().Path() && mentions(fn.Signature(), option.Type()) {
			p.optionUsers[imported.Path()] = fn.FullName()
		}
	}
}

// genericElements are elements of the paths of generated packages that say nothing of whose they are.
var genericElements = regexp.MustCompile(
	`^(v\d+|pkg|apis?|clients?|client-go|gen|generated|internal|informers|externalversions)$`)

// standInFor returns the folder and the import path, in the module of a package, of the stand-in for a generated package.
func (p *program) standInFor(pkg *packages.Package, generated string) (dir, importPath string) {
	base, label := "", "informers"
	for element := range strings.SplitSeq(generated, "/") {
		if !genericElements.MatchString(element) {
			label = element
		}
	}
	inModule, ok := strings.CutPrefix(generated, pkg.Module.Path+"/")
	if i := strings.LastIndex("/"+inModule, "/internal/"); ok && i > 0 {
		base = inModule[:i-1] // below which the generated package can be imported
	}
	for n := 1; ; n++ {
		below := path.Join(base, "internal/tidings", label)
		if n > 1 {
			below += strconv.Itoa(n)
		}
		dir = filepath.Join(pkg.Module.Dir, filepath.FromSlash(below))
		if p.isFree(dir, generated) {
			p.standIns[dir] = generated
			return dir, pkg.Module.Path + "/" + below
		}
	}
}

// isFree reports whether no stand-in for another package is in a folder.
func (p *program) isFree(dir, generated string) bool {
	if of := p.standIns[dir]; of != "" {
		return of == generated
	}
	text, err := os.ReadFile(filepath.Join(dir, standInFile))
	return err != nil || bytes.Contains(text, []byte(strconv.Quote(generated)))
}
