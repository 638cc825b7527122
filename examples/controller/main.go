// Command controller keeps a store of Services up to date and calls a handler for every change: the simplest informer,
// which client-go calls a controller.
package main

import "github.com/tidings/tidings/examples/internal/cluster"

func main() { cluster.Main(withTidings, withClientGo) }
