package main

import "github.com/tidings/tidings/examples/internal/cluster"

func Example_tidings() {
	cluster.Embedded(withTidings)
	// Output:
	// added web
	// added db
	// changed web: web.example.com → www.example.com
	// deleted db
	// in the store: web www.example.com
}

func Example_clientGo() {
	cluster.Embedded(withClientGo)
	// Output:
	// added web
	// added db
	// changed web: web.example.com → www.example.com
	// deleted db
	// in the store: web www.example.com
}
