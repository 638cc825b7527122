// Command reflector assembles the parts of an informer by hand: a reflector lists and watches, a
// queue holds the changes, and the program applies them to a store.
package main

import "github.com/tidings/tidings/examples/internal/cluster"

func main() { cluster.Main(withTidings, withClientGo) }
