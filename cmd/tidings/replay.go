package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/tail"
	"github.com/tidings/tidings/source/recording"
)

// replayFlags are the flags of "tidings replay".
type replayFlags struct {
	tailFlags
	speed string
}

const replayExamples = `  # record what happens to pods until nothing has changed for a minute, and replay it
  tidings tail pods --record pods.tidings --until-idle 1m
  tidings replay pods.tidings

  # the same, as fast as possible, as JSON lines
  tidings replay pods.tidings --speed max -o json`

func newReplay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Show the changes in a recording, as tail shows those of a cluster",
		Long: `replay plays a recording, made by "tidings tail --record" or by any program with Options.Recorder, through the whole informer
stack, and shows the changes as "tidings tail" does: what a program saw in another cluster, including lost connections and
errors, at the original or any other speed. No cluster is needed.

A recording that ends early, because its program crashed or the disk was full, is played as far as it goes.`,
		Example: replayExamples,
		Args:    oneRecording,
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringVar(&f.speed, "speed", "1", "how many times faster than the original, or max")
	f.bindOutput(set)
	complete(cmd, "output", fixedValues("text", "json"))
	complete(cmd, "speed", fixedValues("1", "10", "max"))
	return cmd
}

func oneRecording(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return errors.New("name the file of a recording; to make one: tidings tail pods --record pods.tidings")
	case 1:
		return nil
	default:
		return fmt.Errorf("name one recording, not %d: each is replayed on its own", len(args))
	}
}

// run plays the file.
func (f *replayFlags) run(cmd *cobra.Command, path string) error {
	opts, err := f.complete(cmd.OutOrStdout(), cmd.ErrOrStderr())
	if err != nil {
		return cli.Usage(err)
	}
	speed, err := parseSpeed(f.speed)
	if err != nil {
		return cli.Usage(err)
	}
	rec, err := recording.Open(path)
	if err != nil {
		return err
	}
	screen := cli.NewScreen(cmd.OutOrStdout(), cmd.ErrOrStderr())
	err = tail.Replay(cmd.Context(), rec, recording.PlayOptions{Speed: speed}, screen, opts)
	if why := rec.Incomplete(); why != nil && err == nil {
		err = screen.Err(cmd.Context(), fmt.Appendf(nil, "-- the recording is not complete: %v\n", why))
	}
	return errors.Join(screen.End(err, closeGrace), rec.Close())
}

func parseSpeed(text string) (float64, error) {
	if text == "max" {
		return recording.AtOnce, nil
	}
	speed, err := strconv.ParseFloat(text, 64)
	if err != nil || !(speed > 0) {
		return 0, fmt.Errorf("--speed %q: want a positive number, or max", text)
	}
	return speed, nil
}
