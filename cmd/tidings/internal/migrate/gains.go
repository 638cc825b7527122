package migrate

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// What the informers of a changed file gain.
const (
	gainsAll  = "less memory and CPU: its informers read the server themselves"
	gainsOwn  = "less memory; less CPU, too, if the config of the client in its functions is clientgo.Wrap(config), else more in lists"
	gainsMay  = "less memory and CPU over a ListWatch of a REST client, or over dynamic or metadata clients; over functions of its own less CPU only if the config of their client is clientgo.Wrap(config)"
	gainsKind = "less memory and CPU, except for custom resources of Go types that decode themselves or have unexported fields, which share nothing"
)

// clientGains notes what the informers that a file makes of a package gain once its import has changed.
func (f *file) clientGains(path string, used []use) {
	for _, u := range used {
		switch {
		case path != clientGo+"tools/cache" && path != clientGo+"util/workqueue" && strings.HasPrefix(u.name, "New") &&
			strings.Contains(u.name, "Factory"), strings.HasPrefix(path, clientGo+"informers/") && makesGroupInformer(u.name):
			f.gain(u.at, u.name, gainsAll)
		case path == clientGo+"tools/cache" && makesInformer(u.name) &&
			(strings.Contains(u.name, "Informer") || strings.Contains(u.name, "Reflector")):
			f.gain(u.at, u.name, f.listWatchGain(u.at))
		}
	}
}

func (f *file) gain(at token.Pos, name, text string) {
	f.gains = append(f.gains, Note{f.pkg.Fset.Position(at), name + ": " + text})
}

// listWatchGain says what the informer gains whose constructor's name is at this position: that depends on its
// ListWatch.
func (f *file) listWatchGain(at token.Pos) string {
	text := gainsMay
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || call.Fun.Pos() > at || call.Fun.End() < at {
			return true
		}
		for _, argument := range call.Args {
			switch argument := ast.Unparen(argument).(type) {
			case *ast.CallExpr:
				if name := calledName(argument); slices.Contains([]string{"NewListWatchFromClient", "NewFilteredListWatchFromClient"}, name) {
					text = gainsAll
				}
			case *ast.UnaryExpr:
				if lit, ok := argument.X.(*ast.CompositeLit); ok &&
					isNamed(f.pkg.TypesInfo.TypeOf(lit), clientGo+"tools/cache", "ListWatch") {
					text = gainsOwn
				}
			}
		}
		return true
	})
	return text
}

// calledName returns the name of a called function, without its package.
func calledName(call *ast.CallExpr) string {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return ""
}
