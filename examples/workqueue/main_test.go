package main

import "github.com/tidings/tidings/examples/internal/cluster"

func Example_tidings() {
	cluster.Embedded(installed(withTidings))
	// Output:
	// blog: made a service that leads to blog.example.com
	// blog: the service leads to news.example.com
	// blog: deleted the service
}

func Example_clientGo() {
	cluster.Embedded(installed(withClientGo))
	// Output:
	// blog: made a service that leads to blog.example.com
	// blog: the service leads to news.example.com
	// blog: deleted the service
}
