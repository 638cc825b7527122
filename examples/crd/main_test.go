package main

import "github.com/tidings/tidings/examples/internal/cluster"

func Example() {
	cluster.Embedded(run)
	// Output:
	// the cache has what was just written: true
	// added blog at blog.example.com
	// changed blog: blog.example.com → news.example.com
	// deleted blog, which was at news.example.com
}
