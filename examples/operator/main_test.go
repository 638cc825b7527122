package main

import "github.com/tidings/tidings/examples/internal/cluster"

func Example() {
	cluster.Embedded(run)
	// Output:
	// # a website is created
	// blog: the service leads to blog.example.com
	// blog: the status is of generation 1
	// # somebody deletes its service
	// blog: the service is gone
	// blog: the service leads to blog.example.com
	// # the website moves
	// blog: the service leads to news.example.com
	// blog: the status is of generation 2
	// # the website is deleted
	// blog: the service is gone
}
