// Command operator is the processes of package operator's measurements: a server with objects, or one measurement. The
// command bench builds and runs it.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/tidings/tidings/bench/internal/operator"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: operator serve|measure JSON; the command bench runs it")
		os.Exit(2)
	}
	// The test kit and virtual time need a test, which writes its result to standard output before it passes.
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "operator", F: func(t *testing.T) {
		if err := run(t, os.Args[1], []byte(os.Args[2])); err != nil {
			fmt.Fprintf(os.Stderr, "operator %s: %v\n", os.Args[1], err)
			t.Fail()
		}
	}}}, nil, nil)
}

func run(t *testing.T, role string, argument []byte) error {
	if role == "serve" {
		var server operator.Server
		if err := json.Unmarshal(argument, &server); err != nil {
			return err
		}
		return server.Run(t)
	}
	var m operator.Measurement
	if err := json.Unmarshal(argument, &m); err != nil {
		return err
	}
	metrics, err := m.Run(t)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(metrics)
}
