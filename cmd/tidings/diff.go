package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/moments"
	"github.com/tidings/tidings/source/recording"
)

// diffFlags are the flags of "tidings diff".
type diffFlags struct {
	tailFlags
	at []string
}

const diffExamples = `  # what differs between two moments of a recording
  tidings diff shop.tidings --at 10:02 --at 10:07

  # what the first minute changed in the specs of deployments
  tidings diff shop.tidings deploy --at start --at +1m --changes spec`

func newDiff() *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff RECORDING [RESOURCE... | RESOURCE/NAME] --at TIME --at TIME",
		Short: "Show what differs between two moments of a recording",
		Long: `diff shows what differs between two moments of a recording, by object and field: what was added, deleted and
changed, with the time of the last change. What changed and changed back does not differ.

A moment is a time of day (10:02, 10:02:07), a time after the start (+90s), start, end, or a time in RFC 3339.
Without a second one, it is the end. To see an object as it was at a moment: tidings blame --from --at.`,
		Example: diffExamples,

		DisableFlagsInUseLine: true,
		Args:                  oneRecording,
		RunE:                  func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	set.StringSliceVar(&f.at, "at", nil, "the two moments")
	f.namespaces.Bind(set)
	set.StringVarP(&f.options.Labels, "selector", "l", "", "label selector, such as app=web,tier!=test")
	f.bindOutput(set)
	completeOutput(cmd)
	complete(cmd, "at", fixedValues("start", "end", "+1m"))
	return cmd
}

func (f *diffFlags) run(cmd *cobra.Command, args []string) error {
	opts, err := f.complete(cmd.OutOrStdout(), cmd.ErrOrStderr())
	if err != nil {
		return cli.Usage(err)
	}
	rec, err := recording.Open(args[0])
	if err != nil {
		return err
	}
	defer func() { _ = rec.Close() }() // it was only read
	from, to, err := f.moments(rec)
	if err != nil {
		return cli.Usage(err)
	}
	only, err := selectFrom(rec, args[1:], &f.namespaces, opts.Labels)
	if err != nil {
		return cli.Usage(err)
	}
	for e, err := range moments.Between(rec, only, from, to, opts.News) {
		if err != nil {
			return err
		}
		if !opts.Filter.Apply(&e) {
			continue
		}
		if err := cli.Write(cmd.OutOrStdout(), opts.Printer.Event(e)); err != nil {
			return err
		}
	}
	if text := opts.Filter.Hidden(); text != "" {
		stderr := cmd.ErrOrStderr()
		fmt.Fprint(stderr, cli.Wrap("-- "+text+"\n", cli.Width(stderr), 0))
	}
	return nil
}

func (f *diffFlags) moments(rec *recording.Recording) (from, to time.Time, err error) {
	began, _ := rec.Began()
	switch len(f.at) {
	case 1:
		f.at = append(f.at, "end")
	case 2:
	default:
		return from, to, errors.New("name two moments, such as --at 10:02 --at 10:07")
	}
	if from, err = moments.Parse(f.at[0], began, rec.Duration()); err != nil {
		return from, to, fmt.Errorf("--at %w", err)
	}
	if to, err = moments.Parse(f.at[1], began, rec.Duration()); err != nil {
		return from, to, fmt.Errorf("--at %w", err)
	}
	if to.Before(from) {
		from, to = to, from
	}
	return from, to, nil
}
