package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
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

On a terminal the table fills the screen and is refreshed every second: "?" shows the keys, which group, sort, filter and
pause, and show the last changes of a row. Otherwise the table is written once, at the end (--for).`,
		Example: topExamples,
		Args:    atLeastOneResource,
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.bind(cmd)
	cmd.ValidArgsFunction = completeResources(&f.cluster)
	complete(cmd, "namespace", namespaceNames(&f.cluster))
	complete(cmd, "output", fixedValues("text", "json"))
	complete(cmd, "by", fixedValues("object", "kind", "manager", "namespace"))
	complete(cmd, "sort", fixedValues(top.Columns()...))
	completeCluster(cmd, &f.cluster)
	return cmd
}

func (f *topFlags) bind(cmd *cobra.Command) {
	set := cmd.Flags()
	set.SortFlags = false
	f.namespaces.Bind(set)
	set.StringVarP(&f.options.Labels, "selector", "l", "", "label selector, such as app=web,tier!=test")
	set.StringVar(&f.by, "by", "object", "what to count by: object, kind, manager or namespace")
	set.StringVar(&f.sort, "sort", "writes", "column to sort by: "+strings.Join(top.Columns(), ", "))
	set.IntVar(&f.rows, "rows", 20, "maximum number of rows of a group")
	f.bindTimeout(set, "for", "stop after this long (default: until interrupted)")
	set.StringVarP(&f.format, "output", "o", "text", "text or json (all groups, at the end)")
	f.cluster.Bind(set)
}

func (f *topFlags) check() error {
	switch {
	case !slices.Contains(top.Groups, top.Group(f.by)):
		return fmt.Errorf("--by %q: want object, kind, manager or namespace", f.by)
	case !slices.Contains(top.Columns(), f.sort):
		return fmt.Errorf("--sort %q: want one of %s", f.sort, strings.Join(top.Columns(), ", "))
	case f.format != "text" && f.format != "json":
		return fmt.Errorf("--output %q: want text or json", f.format)
	}
	return notNegative("rows", f.rows)
}

func (f *topFlags) run(cmd *cobra.Command, args []string) error {
	f.output, f.asFields, f.filter.All = "text", true, true
	stdout := cmd.OutOrStdout()
	opts, err := f.complete(stdout, cmd.ErrOrStderr())
	if err = errors.Join(err, f.check()); err != nil {
		return cli.Usage(err)
	}
	counter := top.New(time.Now())
	opts.Printer = counter
	ctx, stop := f.limit(cmd.Context())
	defer stop()
	if f.fullScreen(stdout) {
		if err := f.interact(ctx, cmd, opts, args, counter); err != nil {
			return err
		}
		return f.write(stdout, counter)
	}
	screen := cli.NewScreen(stdout, cmd.ErrOrStderr())
	if err := screen.End(f.follow(ctx, screen, opts, args), closeGrace); err != nil {
		return err
	}
	return f.write(stdout, counter)
}

// fullScreen reports whether to show the table on the whole screen of the terminal.
func (f *topFlags) fullScreen(stdout io.Writer) bool {
	term := os.Getenv("TERM")
	return f.format == "text" && cli.IsTerminal(stdout) && term != "" && term != "dumb"
}

// interact shows the counter on the terminal until a key ends it, ctx ends or following fails.
func (f *topFlags) interact(ctx context.Context, cmd *cobra.Command, opts tail.Options, args []string, counter *top.Counter) error {
	counter.KeepChanges()
	ui := top.NewUI(counter, top.Start{Title: "tidings top " + strings.Join(args, " "), By: top.Group(f.by), Sort: f.sort})
	ctx, end := context.WithCancel(ctx)
	defer end()
	var stdin io.Reader
	if file, ok := cmd.InOrStdin().(*os.File); ok && cli.IsTerminal(file) {
		stdin = file
	}
	screen := cli.NewScreen(io.Discard, ui.Notes()) // what is written would spoil the screen
	followed := make(chan error, 1)
	go func() {
		defer end()
		followed <- f.follow(ctx, screen, opts, args)
	}()
	err := ui.Run(ctx, stdin, cmd.OutOrStdout())
	end()
	failed := screen.End(<-followed, closeGrace)
	if failed != nil && ctx.Err() != nil && errors.Is(failed, context.Cause(ctx)) {
		failed = nil // ended by a key before everything was found
	}
	return errors.Join(err, failed)
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
	return cli.Write(stdout, []byte(report.Text(top.Group(f.by), f.sort, cli.Width(stdout))))
}
