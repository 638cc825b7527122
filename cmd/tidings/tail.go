package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/diff"
	"github.com/tidings/tidings/cmd/tidings/internal/filter"
	"github.com/tidings/tidings/cmd/tidings/internal/kube"
	"github.com/tidings/tidings/cmd/tidings/internal/news"
	"github.com/tidings/tidings/cmd/tidings/internal/story"
	"github.com/tidings/tidings/cmd/tidings/internal/tail"
	"github.com/tidings/tidings/source/recording"
)

// closeGrace is how long a stalled reader of the output can delay the end of the command.
const closeGrace = 2 * time.Second

// tailFlags are the flags of "tidings tail".
type tailFlags struct {
	cluster     kube.Flags
	namespaces  kube.Namespaces
	output      string
	noColor     bool
	maxChanges  int
	maxValue    int
	withManaged bool
	withApplied bool
	withObjects bool
	asFields    bool
	stdout      io.Writer
	record      string
	timeout     string // the name of the flag for Options.Timeout
	filter      filter.Flags
	options     tail.Options
}

// workloads are the resources that tail follows if none is named.
const workloads = "deployments.apps,replicasets.apps,statefulsets.apps,daemonsets.apps,jobs.batch," +
	"cronjobs.batch,pods,events,horizontalpodautoscalers.autoscaling,persistentvolumeclaims"

const tailExamples = `  # what happens to the workloads of the namespace
  tidings tail

  # every change of pods and ReplicaSets in all namespaces, field by field
  tidings tail pods,replicasets.apps -A --fields

  # deployments of one application in two namespaces, as JSON lines
  tidings tail deploy -n shop,billing -l app=web -o json

  # one deployment, and only what its spec becomes
  tidings tail deploy/web -n shop --changes spec

  # who changes images, wherever they are
  tidings tail deploy,sts,ds -A --path '**.image'

  # deployments that are scaled down
  tidings tail deploy -A --where 'new.spec.replicas < old.spec.replicas'

  # what a rollout changes: stops when nothing has changed for ten seconds
  tidings tail deploy,rs,pods --until-idle 10s`

func newTail() *cobra.Command {
	var f tailFlags
	cmd := &cobra.Command{
		Use:   "tail [RESOURCE[,RESOURCE...] | RESOURCE/NAME | RESOURCE NAME]",
		Short: "Tell what happens to a resource's objects, as a story or field by field",
		Long: `tail tells what happens to the objects of one or more resources, by default to the workloads of the
namespace: who changed what, what came of it, and what goes wrong. A pod that starts, a rollout,
a deletion is one line, which grows on a terminal. What only repeats what other lines say is left out.

With --fields it shows every change instead: when, to which object, which fields changed from what to what, and which
field manager changed them. The flags that select single changes (--changes, --path, --ignore, --manager, --op, --where)
imply it.

Resources are named as in kubectl: plural, singular, short name or kind, optionally followed by ".group" or
".version.group", several joined by commas, and categories such as "all". Any resource that can be listed and watched
can be followed, including custom resources.

A single object is named as in kubectl: pod/web, or deploy web.

As text, what only ticks is hidden and counted: renewals of leases, heartbeats, repeated events, and rewrites without a
change. --all shows it. JSON has everything, unless a flag filters it.

The values of Secrets are never shown, only their length and that they changed.

A resource or namespace that you may not list or watch does not affect the others: it is reported at once, and
if it is still missing at the end, the exit code is 1.

Changes are written to standard output. The status of the connection (synced, lost, back) is written to standard error as
text, and with -o json to standard output as a line of kind "status".`,
		Example: tailExamples,
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.bind(cmd)
	cmd.ValidArgsFunction = completeResources(&f.cluster)
	complete(cmd, "namespace", namespaceNames(&f.cluster))
	completeOutput(cmd)
	completeCluster(cmd, &f.cluster)
	return cmd
}

// completeOutput completes the flags of bindOutput.
func completeOutput(cmd *cobra.Command) {
	complete(cmd, "output", fixedValues("text", "json"))
	complete(cmd, "changes", fixedValues("spec", "status", "metadata"))
	complete(cmd, "op", fixedValues("add", "update", "delete"))
}

func atLeastOneResource(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("name one or more resources, such as pods,deployments.apps")
	}
	return nil
}

func (f *tailFlags) bind(cmd *cobra.Command) {
	set := cmd.Flags()
	set.SortFlags = false
	f.namespaces.Bind(set)
	set.StringVarP(&f.options.Labels, "selector", "l", "", "label selector, such as app=web,tier!=test")
	set.StringVar(&f.options.Fields, "field-selector", "", "field selector, such as spec.nodeName=node-1")
	f.bindOutput(set)
	set.BoolP("watch", "w", true, "tail always watches; for those who type it out of habit")
	_ = set.MarkHidden("watch") // it exists
	f.bindIdle(set)
	f.bindTimeout(set, "timeout",
		"stop after this long; an error if --count has not been reached or not everything has synced")
	set.BoolVar(&f.options.ExitAfterSync, "exit-after-sync", false,
		"stop when the current objects are known; with --show-initial, this is a list")
	set.StringVar(&f.record, "record", "",
		"also record what the server sends in this new file, without the values of Secrets, for tidings replay")
	f.cluster.Bind(set)
}

// bindOutput binds the flags that select what is shown, and how.
func (f *tailFlags) bindOutput(set *pflag.FlagSet) {
	set.StringVarP(&f.output, "output", "o", "text", "text or json (one object per line; see docs/tail.md)")
	f.filter.Bind(set)
	set.BoolVar(&f.asFields, "fields", false,
		"show each change by its fields instead of the story; flags that select single changes imply it")
	set.IntVar(&f.options.Count, "count", 0, "stop after this many changes")
	set.BoolVar(&f.options.Initial, "show-initial", false, "also show the objects that exist at the start")
	set.BoolVar(&f.withManaged, "show-managed-fields", false, "also show changes of metadata.managedFields")
	set.BoolVar(&f.withApplied, "show-last-applied", false,
		"also show changes of kubectl's last-applied-configuration annotation")
	set.BoolVar(&f.withObjects, "show-objects", false, "with -o json, include the whole object in each line")
	f.bindLimits(set, 30, 200)
}

// bindLimits binds the flags that limit what is shown of a change, with their defaults, and its colors.
func (f *tailFlags) bindLimits(set *pflag.FlagSet, changes, value int) {
	set.IntVar(&f.maxChanges, "max-changes", changes,
		"maximum number of changed fields to show of one change; the others are counted (0 = all)")
	set.IntVar(&f.maxValue, "max-value", value,
		"maximum number of bytes to show of one value; a longer one is cut (0 = all)")
	set.BoolVar(&f.noColor, "no-color", false,
		"no colors; the default if the output is not a terminal or NO_COLOR is set")
}

// bindIdle binds the flag that ends the command when nothing changes.
func (f *tailFlags) bindIdle(set *pflag.FlagSet) {
	set.DurationVar(&f.options.Idle, "until-idle", 0, "stop when there has been no change for this long")
}

// bindTimeout binds the flag that ends the command, under its name there; see limit.
func (f *tailFlags) bindTimeout(set *pflag.FlagSet, name, usage string) {
	f.timeout = name
	set.DurationVar(&f.options.Timeout, name, 0, usage)
}

// limit returns a context that ends with the timeout.
func (f *tailFlags) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.options.Timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, f.options.Timeout, tail.ErrTimeout)
}

// run follows the resources that args name.
func (f *tailFlags) run(cmd *cobra.Command, args []string) error {
	f.stdout = cmd.OutOrStdout()
	opts, err := f.complete(f.stdout, cmd.ErrOrStderr())
	if err != nil {
		return cli.Usage(err)
	}
	if f.record == "" && cmd.Flags().Changed("record") {
		return cli.Usage(errors.New(`--record "": name a new file`)) // otherwise nothing would be recorded, and nothing would say so
	}
	ctx, stop := f.limit(cmd.Context())
	defer stop()
	if stdin := cmd.InOrStdin(); f.output == "text" && cli.OnTerminal(stdin, cmd.OutOrStdout(), cmd.ErrOrStderr()) {
		opts.Keyboard = func(ctx context.Context) (*cli.Keyboard, error) { return cli.OpenKeyboard(ctx, stdin) }
		opts.News.States = true // a condition may be typed later
	}
	screen := cli.NewScreen(cmd.OutOrStdout(), cmd.ErrOrStderr())
	return screen.End(f.follow(ctx, screen, opts, args), closeGrace)
}

func (f *tailFlags) follow(ctx context.Context, screen *cli.Screen, opts tail.Options, args []string) error {
	logger := cli.NewLogger(screen.ErrWriter(ctx), slog.LevelWarn)
	config, client, err := connect(&f.cluster, logger)
	if err != nil {
		return err
	}
	if opts.Namespaces, err = f.namespaces.List(&f.cluster); err != nil {
		return cli.Usage(err)
	}
	if len(args) == 0 {
		args = []string{workloads}
	}
	if opts.Resources, err = find(ctx, client, args, logger); errors.Is(err, tail.ErrTimeout) {
		return fmt.Errorf("%w after %s: %w", tail.ErrTimeout, opts.Timeout, errNoDiscovery)
	} else if err != nil {
		return err
	}
	if f.tellsStory() {
		how := f.story(f.stdout)
		how.Namespaces = len(opts.Namespaces) != 1 || opts.Namespaces[0] == ""
		for _, r := range opts.Resources {
			how.Kinds = append(how.Kinds, r.Kind)
		}
		opts.Story, opts.News.States = story.New(how), true
	}
	if f.record == "" {
		return tail.Run(ctx, config, screen, opts)
	}
	if opts.Recorder, err = recording.Create(f.record, recording.Options{}); err != nil {
		return err
	}
	return errors.Join(tail.Run(ctx, config, screen, opts), opts.Recorder.Close())
}

// notNegative returns an error if the value of a flag is negative.
func notNegative[V int | float32 | time.Duration](flag string, value V) error {
	if value < 0 {
		return fmt.Errorf("--%s %v: must not be negative", flag, value)
	}
	return nil
}

// complete validates the flags and returns the options, except those that depend on the cluster.
func (f *tailFlags) complete(stdout, stderr io.Writer) (tail.Options, error) {
	opts := f.options
	if err := cmp.Or(
		notNegative("count", opts.Count), notNegative("until-idle", opts.Idle), notNegative(f.timeout, opts.Timeout),
		notNegative("max-changes", f.maxChanges), notNegative("max-value", f.maxValue),
	); err != nil {
		return opts, err
	}
	if _, err := labels.Parse(opts.Labels); err != nil {
		return opts, fmt.Errorf("--selector %q: %w", opts.Labels, err)
	}
	if _, err := fields.ParseSelector(opts.Fields); err != nil {
		return opts, fmt.Errorf("--field-selector %q: %w", opts.Fields, err)
	}
	if f.withObjects && f.output != "json" {
		return opts, errors.New("--show-objects requires -o json")
	}
	opts.News = news.Options{
		Diff:    diff.Options{ManagedFields: f.withManaged, LastApplied: f.withApplied},
		Objects: f.withObjects, States: f.filter.Where != "",
	}
	limits := news.Limits{Changes: f.maxChanges, Value: f.maxValue}
	plain := news.Text{Limits: limits}
	var err error
	switch f.output {
	case "text":
		opts.Printer = news.Text{
			Limits: limits, Colors: !f.noColor && cli.Colors(stdout), StatusColors: !f.noColor && cli.Colors(stderr),
			Width: func() int { return cli.Width(stdout) }, StatusWidth: func() int { return cli.Width(stderr) },
		}
	case "json":
		opts.Printer, opts.StatusOut = news.JSON{Limits: limits}, true
		f.filter.All = true
	default:
		return opts, fmt.Errorf("--output %q: want text or json", f.output)
	}
	opts.Filter, err = f.filter.Compile(plain.Event)
	return opts, err
}

// tellsStory reports whether the flags leave it at the story.
func (f *tailFlags) tellsStory() bool {
	return f.output == "text" && !f.asFields && !f.withManaged && !f.withApplied
}

// story returns the options of a story on a terminal or a pipe.
func (f *tailFlags) story(stdout io.Writer) story.Options {
	return story.Options{Colors: !f.noColor && cli.Colors(stdout), Width: func() int { return cli.Width(stdout) }}
}
