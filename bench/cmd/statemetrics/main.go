// Command statemetrics resembles kube-state-metrics: it has an informer for every built-in
// resource, and keeps a few lines of metrics for each object. It runs on client-go's informers and
// on ours, each time in a separate process, and prints what they used side by side.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/tidings/tidings/bench/internal/flags"
)

// Commands that this program runs itself.
const runCommand = "run" // ENGINE HOST

func main() {
	if isRun(os.Args) {
		runAsChild(os.Args)
	}
	pods := flag.Int("pods", 5000, "pods in the cluster; there are about four other objects for each")
	rounds := flag.Int("rounds", 3, "how often to run each engine; the figures are medians")
	out := flag.String("o", "", "file for a page with the results")
	// The cluster is a test server, which requires a test.
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "statemetrics", F: func(t *testing.T) {
		if err := flags.Positive(flag.CommandLine, "pods", "rounds"); err != nil {
			t.Fatal(err)
		}
		results, err := compare(t, *pods, *rounds)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Print(table(results))
		if *out == "" {
			return
		}
		if err := os.WriteFile(*out, []byte(page(results, *pods, *rounds)), 0o644); err != nil {
			t.Fatal(err)
		}
	}}}, nil, nil)
}

func isRun(args []string) bool { return len(args) == 4 && args[1] == runCommand }

// runAsChild is the process of one engine. It prints its Usage in JSON.
func runAsChild(args []string) {
	usage, err := run(context.Background(), engine(args[2]), args[3])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(usage)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "statemetrics:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// compare runs all engines against one server, in turn.
func compare(t testing.TB, pods, rounds int) (map[engine][]Usage, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	host := newCluster(t, pods)
	results := map[engine][]Usage{}
	for range rounds {
		for _, e := range engines {
			cmd := exec.CommandContext(t.Context(), program, runCommand, string(e), host)
			cmd.Stderr = os.Stderr
			output, err := cmd.Output()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e, err)
			}
			var usage Usage
			if err := json.Unmarshal(output, &usage); err != nil {
				return nil, fmt.Errorf("%s: %w", e, err)
			}
			results[e] = append(results[e], usage)
		}
	}
	return results, nil
}
