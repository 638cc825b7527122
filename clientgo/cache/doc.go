// Package cache is a drop-in replacement for client-go's tools/cache: it declares every exported name of that package, so a program only
// changes the import path.
package cache

//go:generate sh -c "cd .. && go run gen_aliases.go cache tools/cache"
