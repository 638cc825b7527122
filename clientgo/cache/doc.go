// Package cache stands in for client-go's tools/cache: it has every exported name of that package, so a program changes the import path only.
package cache

//go:generate sh -c "cd .. && go run gen_aliases.go cache tools/cache"
