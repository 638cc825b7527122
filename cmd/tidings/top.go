package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/tail"
	"github.com/tidings/tidings/cmd/tidings/internal/top"
)

// topFlags are the flags of "tidings top".
type topFlags struct {
	tailFlags
	format string
	by     string
	sort   string
	rows   int
}

const topExamples = `  # who writes most, until ctrl-C
  tidings top pods,deploy,leases -A

  # by field manager, those with the most useless writes first
  tidings top all -A --by manager --sort useless

  # for a script
  tidings top pods -o json --for 30s`

func newTop() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top RESOURCE[,RESOURCE...]",
		Short: "Show who writes most, what for nothing, and who fights over a field",
		Long: `top counts the writes of the objects of one or more resources: by object, kind, field manager or namespace, with the
rate, the bytes, and the writes that changed nothing but times and bookkeeping. It names the fields that two managers
set back and forth.

On a terminal the table is refreshed every second until ctrl-C. Otherwise it is written once, at the end (--for).`,
		Example: topExamples,
		Args:    atLeastOneResource,
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.bind(cmd)
	cmd.ValidArgsFunction = completeResources(&f.cluster)
	complete(cmd, "namespace", namespaceNames(&f.cluster))
	complete(cmd, "output", fixedValues("text", "json"))
	complete(cmd, "by", fixedValues("object", "kind", "manager", "namespace"))
	complete(cmd, "sort", fixedValues("writes", "useless", "bytes"))
	completeCluster(cmd, &f.cluster)
	return cmd
}

func (f *topFlags) bind(cmd *cobra.Command) {
	set := cmd.Flags()
	set.SortFlags = false
	f.namespaces.Bind(set)
	set.StringVarP(&f.options.Labels, "selector", "l", "", "label selector, such as app=web,tier!=test")
	set.StringVar(&f.by, "by", "object", "what to count by: object, kind, manager or namespace")
	set.StringVar(&f.sort, "sort", "writes", "column to sort by: writes, useless or bytes")
	set.IntVar(&f.rows, "rows", 20, "maximum number of rows of a group")
	set.DurationVar(&f.options.Timeout, "for", 0, "stop after this long (default: until interrupted)")
	set.StringVarP(&f.format, "output", "o", "text", "text or json (all groups, at the end)")
	f.cluster.Bind(set)
}

func (f *topFlags) check() error {
	switch {
	case !slices.Contains(top.Groups, top.Group(f.by)):
		return fmt.Errorf("--by %q: want object, kind, manager or namespace", f.by)
	case !slices.Contains([]string{"writes", "useless", "bytes"}, f.sort):
		return fmt.Errorf("--sort %q: want writes, useless or bytes", f.sort)
	case f.format != "text" && f.format != "json":
		return fmt.Errorf("--output %q: want text or json", f.format)
	}
	return notNegative("rows", f.rows)
}

func (f *topFlags) run(cmd *cobra.Command, args []string) error {
	f.output, f.filter.All = "text", true
	stdout := cmd.OutOrStdout()
	opts, err := f.complete(stdout, cmd.ErrOrStderr())
	if err = errors.Join(err, f.check()); err != nil {
		return cli.Usage(err)
	}
	counter := top.New(time.Now())
	opts.Printer = counter
	ctx := cmd.Context()
	if opts.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, opts.Timeout, tail.ErrTimeout)
		defer stop()
	}
	screen := cli.NewScreen(stdout, cmd.ErrOrStderr())
	live, done := context.WithCancel(ctx)
	var painter sync.WaitGroup
	if f.format == "text" && cli.IsTerminal(stdout) {
		painter.Go(func() { f.paint(live, screen, stdout, counter) })
	}
	err = f.follow(ctx, screen, opts, args)
	done()
	painter.Wait()
	if err = screen.End(err, closeGrace); err != nil {
		return err
	}
	return f.write(stdout, counter)
}

// paint repaints the terminal every second.
func (f *topFlags) paint(ctx context.Context, screen *cli.Screen, stdout io.Writer, counter *top.Counter) {
	const home = "\x1b[H\x1b[2J"
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		report := counter.Report(time.Now(), f.rows)
		text := home + report.Text(top.Group(f.by), f.sort, cli.Width(stdout), cli.Height(stdout))
		if screen.Out(ctx, []byte(text)) != nil {
			return
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

// write writes the final report.
func (f *topFlags) write(stdout io.Writer, counter *top.Counter) error {
	report := counter.Report(time.Now(), f.rows)
	if f.format == "json" {
		text, err := json.MarshalIndent(report, "", "  ")
		if err != nil {
			return err
		}
		return cli.Write(stdout, append(cli.PrintableJSON(text), '\n'))
	}
	text := report.Text(top.Group(f.by), f.sort, cli.Width(stdout), 0)
	if cli.IsTerminal(stdout) {
		text = "\x1b[H\x1b[2J" + text
	}
	return cli.Write(stdout, []byte(text))
}
