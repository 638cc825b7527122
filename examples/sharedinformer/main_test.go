package main

import "github.com/tidings/tidings/examples/internal/cluster"

func Example_tidings() {
	cluster.Embedded(withTidings)
	// Output:
	// added web
	//   event 1
	// added db
	//   event 2
	// changed web
	//   event 3
	// deleted db
	//   event 4
	// the lister has web
}

func Example_clientGo() {
	cluster.Embedded(withClientGo)
	// Output:
	// added web
	//   event 1
	// added db
	//   event 2
	// changed web
	//   event 3
	// deleted db
	//   event 4
	// the lister has web
}
