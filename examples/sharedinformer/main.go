// Command sharedinformer has two handlers that share one informer, which a factory made: one tells of changes, the other counts. Neither waits for
// the other.
package main

import "github.com/tidings/tidings/examples/internal/cluster"

func main() { cluster.Main(withTidings, withClientGo) }
