package main

import "github.com/tidings/tidings/examples/internal/cluster"

func Example_tidings() {
	cluster.Embedded(withWebsites(withTidings))
	// Output:
	// blog: created a service that points to blog.example.com
	// blog: the service points to news.example.com
	// blog: deleted the service
}

func Example_clientGo() {
	cluster.Embedded(withWebsites(withClientGo))
	// Output:
	// blog: created a service that points to blog.example.com
	// blog: the service points to news.example.com
	// blog: deleted the service
}
