package main

import "github.com/tidings/tidings/examples/internal/cluster"

func Example() {
	cluster.Embedded(run)
	// Output:
	// Added web map[app:web]
	// Added db map[app:db]
	// Updated web map[app:web]
	// Deleted db map[app:db]
	// labeled app=web: PartialObjectMetadata web
}
