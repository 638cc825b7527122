// Command tidings-serve is a read replica of the Kubernetes API server.
package main

import (
	"os"
)

func main() {
	if err := command().Execute(); err != nil {
		os.Exit(1)
	}
}
