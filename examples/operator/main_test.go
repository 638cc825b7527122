package main

import "github.com/tidings/tidings/examples/internal/cluster"

func Example() {
	cluster.Embedded(run)
	// Output:
	// # a website is created
	// blog: the service points to blog.example.com
	// blog: the status reflects generation 1
	// # somebody deletes its service
	// blog: the service is gone
	// blog: the service points to blog.example.com
	// # the website's host changes
	// blog: the service points to news.example.com
	// blog: the status reflects generation 2
	// # the website is deleted
	// blog: the service is gone
}
