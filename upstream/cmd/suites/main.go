// Suites runs the tests of client-go, controller-runtime and Kubernetes' controllers on this project's packages.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidings/tidings/upstream/internal/suites"
)

// newestClientGo is the newest version of client-go that the project is tested with.
const newestClientGo = "v0.37.2"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		os.Exit(1)
	}
}

// flags are the flags of the command that Options does not have as they are.
type flags struct {
	options        suites.Options
	run, log, page string
}

func command() *cobra.Command {
	var f flags
	var about strings.Builder
	for _, s := range suites.All {
		fmt.Fprintf(&about, "  %-20s %s\n", s.Name, s.About)
	}
	cmd := &cobra.Command{
		Use:           "suites [SUITE...]",
		Short:         "Run the tests of other projects on this project's packages",
		Long:          "Suites runs the tests of other projects on this project's packages. It fails if a test fails that is not listed as a documented\ndifference, or passes that is.\n\n" + about.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, names []string) error { return f.runSuites(cmd, names) },
	}
	o := &f.options
	cmd.Flags().StringVar(&o.ClientGo, "client-go", newestClientGo, "version of client-go for its suite")
	cmd.Flags().BoolVar(&o.Unreplaced, "unreplaced", false, "run the tests on the packages that they are for, to see what fails there too")
	cmd.Flags().BoolVar(&o.Inside, "inside", false, "in Kubernetes, replace imports in the controllers as well, and also work queues and package cache")
	cmd.Flags().StringSliceVar(&o.Packages, "packages", nil, "packages to run; for Kubernetes \"all\" selects all")
	cmd.Flags().BoolVar(&o.Quick, "quick", false,
		"only tests that cannot fail because the machine is slow, and end soon; client-go has some")
	cmd.Flags().StringVar(&f.run, "run", "", "regular expression for names of tests")
	cmd.Flags().IntVar(&o.Count, "count", 1, "how often each test runs")
	cmd.Flags().BoolVar(&o.Race, "race", false, "run with the race detector")
	cmd.Flags().DurationVar(&o.Limit, "limit", 2*time.Minute, "time that a test may take")
	cmd.Flags().IntVar(&o.Parallel, "parallel", 2, "tests of a package that run at a time")
	cmd.Flags().StringVar(&f.log, "log", "", "file for the output of all tests")
	cmd.Flags().StringVarP(&f.page, "out", "o", "", "file for a page with the results")
	return cmd
}

// runSuites runs the named suites.
func (f *flags) runSuites(cmd *cobra.Command, names []string) error {
	if err := f.complete(); err != nil {
		return err
	}
	f.options.Progress = cmd.OutOrStdout()
	chosen, err := suites.Named(names, f.options.Quick)
	if err != nil {
		return err
	}
	if f.log != "" {
		log, err := os.Create(f.log)
		if err != nil {
			return err
		}
		defer log.Close()
		f.options.Log = log
	}
	var reports []suites.Report
	for _, suite := range chosen {
		r, err := suite.Run(cmd.Context(), f.options)
		if err != nil {
			return err
		}
		reports = append(reports, r...)
	}
	return f.conclude(cmd, reports)
}

// complete sets what the options take from elsewhere.
func (f *flags) complete() error {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	upstream := filepath.Dir(strings.TrimSpace(string(out)))
	if filepath.Base(upstream) != "upstream" {
		return errors.New("it runs in the folder upstream of a checkout only")
	}
	f.options.Root = filepath.Dir(upstream)
	if f.run != "" {
		f.options.Run, err = regexp.Compile(f.run)
	}
	return err
}

// conclude writes the page, and says what is wrong.
func (f *flags) conclude(cmd *cobra.Command, reports []suites.Report) error {
	differences := f.options.Differences()
	if f.page != "" {
		if err := os.WriteFile(f.page, []byte(suites.Page(reports, differences, f.options, time.Now())), 0o644); err != nil {
			return err
		}
	}
	judged := suites.Judge(reports, differences)
	passed, documented := 0, 0
	for _, r := range reports {
		passed += r.Passed
	}
	for _, of := range judged.Documented {
		documented += len(of)
	}
	cmd.Printf("%d passed, %d are documented differences\n", passed, documented)
	if len(judged.Wrong) > 0 {
		return fmt.Errorf("%d results are not as documented:\n\t%s", len(judged.Wrong), strings.Join(judged.Wrong, "\n\t"))
	}
	if passed == 0 {
		return errors.New("no test passed")
	}
	return nil
}
