package main

import "github.com/tidings/tidings/examples/internal/cluster"

func Example_tidings() {
	cluster.Embedded(withTidings)
	// Output:
	// listed web web.example.com
	// added db db.example.com
	// changed web www.example.com
	// deleted db db.example.com
	// 1 service is left: web
}

func Example_clientGo() {
	cluster.Embedded(withClientGo)
	// Output:
	// listed web web.example.com
	// added db db.example.com
	// changed web www.example.com
	// deleted db db.example.com
	// 1 service is left: web
}
