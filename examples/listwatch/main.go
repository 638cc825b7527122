// Command listwatch lists the Services in a namespace and watches for changes, by hand: what every
// informer does underneath, without retries and without a cache.
package main

import "github.com/tidings/tidings/examples/internal/cluster"

func main() { cluster.Main(withTidings, withClientGo) }
