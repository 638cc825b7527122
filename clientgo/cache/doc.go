// Package cache is a drop-in replacement for client-go's tools/cache: it declares every exported
// name that this package has in client-go 0.36, so a program only changes the import path. Names
// that came later are imported from client-go, beside this package.
package cache

//go:generate sh -c "cd .. && go run gen_aliases.go cache tools/cache"
