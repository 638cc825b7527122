package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidings/tidings/upstream/internal/compare"
	"github.com/tidings/tidings/upstream/internal/controllers"
)

// compareFlags are what can be chosen for a comparison.
type compareFlags struct {
	rounds, restartEvery int
	pause                time.Duration
	seed                 uint64
	logs                 string
}

func compareCommand() *cobra.Command {
	var flags compareFlags
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Play the same scenario on both stacks, each with a control plane of its own, and compare end states and costs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().IntVar(&flags.rounds, "rounds", 30, "rounds of changes")
	cmd.Flags().DurationVar(&flags.pause, "pause", 18*time.Second, "time after the changes of each round")
	cmd.Flags().IntVar(&flags.restartEvery, "restart-every", 5, "rounds between restarts of the API server; 0 for none")
	cmd.Flags().Uint64Var(&flags.seed, "seed", 1, "seed of the changes")
	cmd.Flags().StringVar(&flags.logs, "logs", os.TempDir(), "folder for the controllers' logs")
	return cmd
}

func (f compareFlags) run(ctx context.Context, out, log io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	opts := compare.Options{
		Program: program, Dir: f.logs, Rounds: f.rounds, Pause: f.pause, RestartEvery: f.restartEvery, Seed: f.seed,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	}
	var results []compare.Result
	for _, engine := range []string{controllers.ClientGo, controllers.Tidings} {
		r, err := compare.Run(ctx, engine, opts)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	if err := write(out, results[0], results[1]); err != nil {
		return err
	}
	if diff := results[0].State.Difference(results[1].State); diff != "" {
		return fmt.Errorf("the end states differ (- client-go, + tidings):\n%s", diff)
	}
	_, err = fmt.Fprintf(out, "\nThe end states are equal: %d lines.\n", len(results[0].State.Lines))
	return err
}

// write writes a table of what the controllers used.
func write(out io.Writer, theirs, ours compare.Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\t%s\t%s\t\n", theirs.Engine, ours.Engine)
	fmt.Fprintf(w, "time\t%s\t%s\t\n", theirs.Took.Round(time.Second), ours.Took.Round(time.Second))
	fmt.Fprintf(w, "API server restarts\t%d\t%d\t\n", theirs.Restarts, ours.Restarts)
	fmt.Fprintf(w, "CPU\t%s\t%s\t%s\n", theirs.Used.CPU.Round(10*time.Millisecond), ours.Used.CPU.Round(10*time.Millisecond), ratio(theirs.Used.CPU, ours.Used.CPU))
	fmt.Fprintf(w, "heap at the end\t%.1f MB\t%.1f MB\t%s\n", float64(theirs.Used.Heap)/1e6, float64(ours.Used.Heap)/1e6, ratio(theirs.Used.Heap, ours.Used.Heap))
	fmt.Fprintf(w, "peak RSS\t%.0f MB\t%.0f MB\t%s\n", float64(theirs.Used.PeakRSS)/1e6, float64(ours.Used.PeakRSS)/1e6, ratio(theirs.Used.PeakRSS, ours.Used.PeakRSS))
	for _, verb := range slices.Sorted(maps.Keys(theirs.Used.Requests)) {
		fmt.Fprintf(w, "%s requests\t%d\t%d\t%s\n", verb, theirs.Used.Requests[verb], ours.Used.Requests[verb], ratio(theirs.Used.Requests[verb], ours.Used.Requests[verb]))
	}
	return w.Flush()
}

func ratio[N int | uint64 | time.Duration](theirs, ours N) string {
	if theirs == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f×", float64(ours)/float64(theirs))
}
