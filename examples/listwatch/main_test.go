package main

import "github.com/tidings/tidings/examples/internal/cluster"

func Example_tidings() {
	cluster.Embedded(withTidings)
	// Output:
	// listed web web.example.com
	// ADDED db db.example.com
	// MODIFIED web www.example.com
	// DELETED db db.example.com
}

func Example_clientGo() {
	cluster.Embedded(withClientGo)
	// Output:
	// listed web web.example.com
	// ADDED db db.example.com
	// MODIFIED web www.example.com
	// DELETED db db.example.com
}
