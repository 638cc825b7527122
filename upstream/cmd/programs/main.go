// Programs builds programs of other people on client-go and on this project's packages, runs both, and compares them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/upstream/internal/programs"
)

func main() {
	var opts programs.Options
	flag.IntVar(&opts.Rounds, "rounds", 3, "how often to run each program on each engine; the figures are medians")
	flag.StringVar(&opts.Logs, "logs", os.TempDir(), "folder for the programs' logs")
	page := flag.String("o", "", "file for a page with the results")
	names := flag.String("programs", "", "names of programs, separated by commas; all if empty")
	// The test server requires a test.
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "programs", F: func(t *testing.T) {
		if err := run(t, opts, *names, *page); err != nil {
			t.Fatal(err)
		}
	}}}, nil, nil)
}

func run(t *testing.T, opts programs.Options, names, page string) (err error) {
	if opts.Rounds < 1 {
		return fmt.Errorf("-rounds %d: must be positive", opts.Rounds)
	}
	var chosen []string
	if names != "" {
		chosen = strings.Split(names, ",")
	}
	these, err := programs.Named(chosen)
	if err != nil {
		return err
	}
	if opts.Root, err = root(); err != nil {
		return err
	}
	opts.Progress = os.Stdout
	reports, err := programs.CompareAll(t, these, opts)
	if err != nil {
		return err
	}
	for _, r := range reports {
		fmt.Printf("\n%s\n%s", r.Program.Name, r.Table())
		if r.Difference != "" {
			err = errors.Join(err, fmt.Errorf("%s: the results differ (- client-go, + tidings): %s", r.Program.Name,
				r.Difference))
		}
	}
	if page != "" {
		err = errors.Join(err, os.WriteFile(page, []byte(programs.Page(reports, opts, time.Now())), 0o644))
	}
	return err
}

// root returns the folder of this project.
func root() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	upstream := filepath.Dir(strings.TrimSpace(string(out)))
	if filepath.Base(upstream) != "upstream" {
		return "", errors.New("it runs in the folder upstream of a checkout only")
	}
	return filepath.Dir(upstream), nil
}
