// Command sharedinformer has two handlers on one shared informer from a factory: one prints
// changes, the other counts them. Neither waits for the other.
package main

import "github.com/tidings/tidings/examples/internal/cluster"

func main() { cluster.Main(withTidings, withClientGo) }
