package main

import "github.com/tidings/tidings/examples/internal/cluster"

func Example_tidings() {
	cluster.Embedded(withTidings)
	// Output:
	// web: 1 at web
	// db: 1 at db
	// web: 1 at www
	// db: 0 at db
	// at www: web
}

func Example_clientGo() {
	cluster.Embedded(withClientGo)
	// Output:
	// web: 1 at web
	// db: 1 at db
	// web: 1 at www
	// db: 0 at db
	// at www: web
}
