package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/history"
	"github.com/tidings/tidings/cmd/tidings/internal/kube"
	"github.com/tidings/tidings/cmd/tidings/internal/story"
	"github.com/tidings/tidings/cmd/tidings/internal/tail"
	"github.com/tidings/tidings/source/recording"
)

// replayFlags are the flags of "tidings replay".
type replayFlags struct {
	tailFlags
	speed string
}

const replayExamples = `  # record pods until nothing changes for a minute, and replay it
  tidings tail pods --record pods.tidings --until-idle 1m
  tidings replay pods.tidings

  # the same, as fast as possible, as JSON lines
  tidings replay pods.tidings --speed max -o json

  # what one controller did to one workload
  tidings replay all.tidings deploy,rs,pods -n shop -l app=web \
      --manager kube-controller-manager --speed max`

func newReplay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay FILE [RESOURCE[,RESOURCE...] | RESOURCE/NAME]",
		Short: "Show the changes in a recording, as tail shows those of a cluster",
		Long: `replay shows a recording, made by "tidings tail --record" or by any program with Options.Recorder, as "tidings tail"
showed the cluster: the same changes with the times when they happened, and the lost connections and errors that were
recorded, at the original or any other speed. No cluster is needed.

It takes the filters of tail, and the resources and objects to show. A recording that ends early, because its program
crashed or the disk was full, is played as far as it goes. Recordings of earlier releases do not have the time of day: it is
then estimated from the date of the file.`,
		Example: replayExamples,
		Args:    oneRecording,
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	f.namespaces.Bind(set)
	set.StringVarP(&f.options.Labels, "selector", "l", "", "label selector, such as app=web,tier!=test")
	set.StringVar(&f.speed, "speed", "1", "how many times faster than the original, or max")
	f.bindOutput(set)
	completeOutput(cmd)
	complete(cmd, "speed", fixedValues("1", "10", "max"))
	return cmd
}

func oneRecording(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("name the file of a recording; to make one: tidings tail pods --record pods.tidings")
	}
	return nil
}

// run plays the file.
func (f *replayFlags) run(cmd *cobra.Command, args []string) error {
	opts, err := f.complete(cmd.OutOrStdout(), cmd.ErrOrStderr())
	if err != nil {
		return cli.Usage(err)
	}
	speed, err := parseSpeed(f.speed)
	if err != nil {
		return cli.Usage(err)
	}
	rec, err := recording.Open(args[0])
	if err != nil {
		return err
	}
	only, err := selectFrom(rec, args[1:], &f.namespaces, opts.Labels)
	if err != nil {
		return errors.Join(cli.Usage(err), rec.Close())
	}
	if f.tellsStory() {
		how := f.story(cmd.OutOrStdout())
		namespaces := map[string]bool{}
		for _, scope := range rec.Collections() {
			how.Kinds = append(how.Kinds, scope.Kind.Kind)
			namespaces[scope.Namespace] = true
		}
		how.Namespaces = len(namespaces) > 1 || namespaces[""]
		opts.Story, opts.News.States = story.New(how), true
	}
	screen := cli.NewScreen(cmd.OutOrStdout(), cmd.ErrOrStderr())
	err = tail.Replay(cmd.Context(), rec, speed, only, screen, opts)
	if why := rec.Incomplete(); why != nil && err == nil {
		err = screen.Err(cmd.Context(), fmt.Appendf(nil, "-- the recording is not complete: %v\n", why))
	}
	return errors.Join(screen.End(err, closeGrace), rec.Close())
}

// selectFrom resolves what to show of a recording.
func selectFrom(rec *recording.Recording, args []string, namespaces *kube.Namespaces, selector string) (history.Selection, error) {
	named, err := namespaces.Named()
	if err != nil {
		return history.Selection{}, err
	}
	return history.Select(rec, args, named, selector)
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
