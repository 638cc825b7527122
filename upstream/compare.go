package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidings/tidings/upstream/internal/compare"
	"github.com/tidings/tidings/upstream/internal/controllers"
)

// compareFlags are the flags of a comparison.
type compareFlags struct {
	rounds, restartEvery int
	pause                time.Duration
	seed                 uint64
	logs, page, profiles string
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
	cmd.Flags().IntVar(&flags.rounds, "rounds", 33, "rounds of changes")
	cmd.Flags().DurationVar(&flags.pause, "pause", 18*time.Second, "time after the changes of each round")
	cmd.Flags().IntVar(&flags.restartEvery, "restart-every", 5, "rounds between restarts of the API server; 0 for none")
	cmd.Flags().Uint64Var(&flags.seed, "seed", 1, "seed of the changes")
	cmd.Flags().StringVar(&flags.profiles, "profiles", "", "folder for CPU and heap profiles of the controllers")
	cmd.Flags().StringVarP(&flags.page, "out", "o", "", "file for a page with the results")
	cmd.Flags().StringVar(&flags.logs, "logs", os.TempDir(), "folder for the controllers' logs")
	return cmd
}

func (f compareFlags) run(ctx context.Context, out, log io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	opts := compare.Options{
		Program: program, Dir: f.logs, Profiles: f.profiles, Rounds: f.rounds, Pause: f.pause, RestartEvery: f.restartEvery, Seed: f.seed,
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
	theirs, ours := results[0], results[1]
	fmt.Fprint(out, table(theirs, ours))
	if diff := theirs.State.Difference(ours.State); diff != "" {
		return fmt.Errorf("the end states differ (- client-go, + tidings):\n%s", diff)
	}
	fmt.Fprintf(out, "\nThe end states are equal: %d lines.\n", len(theirs.State.Lines))
	if f.page == "" {
		return nil
	}
	return os.WriteFile(f.page, []byte(page(f, theirs, ours, time.Now())), 0o644)
}
