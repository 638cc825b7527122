// Command listwatch lists the Services of a namespace and watches them change, by hand: what every informer does underneath, without
// retries, without a cache.
package main

import "github.com/tidings/tidings/examples/internal/cluster"

func main() { cluster.Main(withTidings, withClientGo) }
