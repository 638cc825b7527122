// Cachewrite finds writes to objects that an informer's cache returned. It takes package patterns, or runs as
//
//	go vet -vettool=$(which cachewrite) ./...
package main

import (
	"golang.org/x/tools/go/analysis/singlechecker"

	"github.com/tidings/tidings/cmd/tidings/cachewrite"
)

func main() { singlechecker.Main(cachewrite.Analyzer) }
