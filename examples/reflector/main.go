// Command reflector puts the parts of an informer together by hand: a reflector lists and watches, a queue holds the changes, and
// the program takes them from there into a store.
package main

import "github.com/tidings/tidings/examples/internal/cluster"

func main() { cluster.Main(withTidings, withClientGo) }
