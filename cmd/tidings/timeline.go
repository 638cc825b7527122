package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/history"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/cmd/tidings/internal/story"
	"github.com/tidings/tidings/cmd/tidings/internal/tail"
	"github.com/tidings/tidings/cmd/tidings/internal/timeline"
	"github.com/tidings/tidings/source/recording"
)

// timelineFlags are the flags of "tidings timeline".
type timelineFlags struct {
	tailFlags
	from  string
	tree  bool
	kinds []string
}

const timelineExamples = `  # a deployment, its ReplicaSets, pods and their events, from now on
  tidings timeline deploy/web -n shop --tree

  # what happened to it while this recording was made
  tidings tail deploy,rs,pods,events --record shop.tidings --until-idle 1m
  tidings timeline deploy/web --tree --from shop.tidings`

func newTimeline() *cobra.Command {
	var f timelineFlags
	cmd := &cobra.Command{
		Use:   "timeline RESOURCE/NAME",
		Short: "Tell what happens to one object and its relatives, in order",
		Long: `timeline tells what happens to an object, as tail does; with --fields, one line for each change, with
its time. With --tree it includes everything that the object owns or that owns it, and their events.

What the objects say themselves is told as it is. With --fields, what follows from owners and times alone is
marked with ≈, such as "≈ 3ms after the change of Deployment web".

It follows the cluster from now on, or reads a recording of it (--from).`,
		Example: timelineExamples,
		Args:    oneObject,
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.bind(cmd)
	cmd.ValidArgsFunction = completeResources(&f.cluster)
	complete(cmd, "namespace", namespaceNames(&f.cluster))
	complete(cmd, "with", resourceNames(&f.cluster))
	completeCluster(cmd, &f.cluster)
	return cmd
}

func oneObject(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return errors.New("name one object, such as deploy/web")
	}
	return nil
}

func (f *timelineFlags) bind(cmd *cobra.Command) {
	set := cmd.Flags()
	set.SortFlags = false
	f.namespaces.Bind(set)
	set.BoolVar(&f.tree, "tree", false, "also what it owns and what owns it, and their events")
	set.StringSliceVar(&f.kinds, "with", nil, "with --tree, the resources to look at (default replicasets, pods, events and others of the usual owners)")
	set.StringVar(&f.from, "from", "", "read this `recording` instead of following the cluster")
	f.bindIdle(set)
	f.bindTimeout(set, "for", "stop after this long (default: until interrupted)")
	set.BoolVar(&f.asFields, "fields", false, "show each change by its fields instead of the story")
	f.bindLimits(set, 6, 80)
	f.cluster.Bind(set)
}

func (f *timelineFlags) run(cmd *cobra.Command, args []string) error {
	f.output = "text"
	opts, err := f.complete(cmd.OutOrStdout(), cmd.ErrOrStderr())
	if err != nil {
		return cli.Usage(err)
	}
	opts.Initial, opts.News.Objects = true, true
	if f.from != "" {
		return f.replay(cmd, args, opts)
	}
	return f.followTree(cmd, args, opts)
}

// printer returns the printer for the one object that was named.
func (f *timelineFlags) printer(cmd *cobra.Command, targets []resources.Target, namespace string) (*timeline.Printer, error) {
	if len(targets) != 1 || targets[0].Object == "" {
		return nil, cli.Usage(errors.New("name one object, such as deploy/web"))
	}
	stdout := cmd.OutOrStdout()
	var teller *story.Teller
	if f.tellsStory() {
		how := f.story(stdout)
		how.Dates = true
		teller = story.New(how)
	}
	return timeline.New(timeline.Options{
		Root: targets[0], Namespace: namespace, Tree: f.tree, Story: teller, Colors: !f.noColor && cli.Colors(stdout),
		Width: func() int { return cli.Width(stdout) }, MaxChanges: f.maxChanges, MaxValue: f.maxValue,
	}), nil
}

func (f *timelineFlags) replay(cmd *cobra.Command, args []string, opts tail.Options) error {
	rec, err := recording.Open(f.from)
	if err != nil {
		return err
	}
	only, err := selectFrom(rec, args, &f.namespaces, "")
	if err != nil {
		return errors.Join(cli.Usage(err), rec.Close())
	}
	namespace := ""
	if len(only.Namespaces) == 1 {
		namespace = only.Namespaces[0]
	}
	printer, err := f.printer(cmd, only.Targets, namespace)
	if err != nil {
		return errors.Join(err, rec.Close())
	}
	f.use(&opts, printer)
	screen := cli.NewScreen(cmd.OutOrStdout(), cmd.ErrOrStderr())
	err = tail.Replay(cmd.Context(), rec, recording.AtOnce, history.Selection{Namespaces: only.Namespaces}, screen, opts)
	if err == nil && !printer.Met() {
		err = fmt.Errorf("%s: there is no %s at any time", f.from, only.Targets[0])
	}
	if why := rec.Incomplete(); why != nil && err == nil {
		err = screen.Err(cmd.Context(), fmt.Appendf(nil, "-- the recording is not complete: %v\n", why))
	}
	return errors.Join(screen.End(err, closeGrace), rec.Close())
}

// followTree follows the cluster from now on.
func (f *timelineFlags) followTree(cmd *cobra.Command, args []string, opts tail.Options) error {
	ctx, stop := f.limit(cmd.Context())
	defer stop()
	screen := cli.NewScreen(cmd.OutOrStdout(), cmd.ErrOrStderr())
	return screen.End(f.followOn(ctx, cmd, screen, opts, args), closeGrace)
}

func (f *timelineFlags) followOn(ctx context.Context, cmd *cobra.Command, screen *cli.Screen, opts tail.Options, args []string) error {
	logger := cli.NewLogger(screen.ErrWriter(ctx), slog.LevelWarn)
	config, client, err := connect(&f.cluster, logger)
	if err != nil {
		return err
	}
	if opts.Namespaces, err = f.namespaces.List(&f.cluster); err != nil {
		return cli.Usage(err)
	}
	catalog, err := discover(ctx, client, logger)
	if err != nil {
		return err
	}
	targets, err := catalog.ResolveTargets(args...)
	if err != nil {
		return cli.Usage(err)
	}
	namespace := ""
	if len(opts.Namespaces) == 1 && targets[0].Namespaced {
		namespace = opts.Namespaces[0]
	}
	printer, err := f.printer(cmd, targets, namespace)
	if err != nil {
		return err
	}
	f.use(&opts, printer)
	opts.Resources = targets
	if f.tree {
		if opts.Resources, err = f.relatives(catalog, targets[0].Resource); err != nil {
			return cli.Usage(err)
		}
	}
	if namespace != "" || !targets[0].Namespaced {
		_, err := getObject(ctx, config, targets[0], namespace)
		if absent, ok := errors.AsType[absentError](err); ok {
			if err := screen.Err(ctx, fmt.Appendf(nil, "-- %v yet: waiting for it\n", absent)); err != nil {
				return err
			}
		} // what else may be wrong is said of the list
	}
	opts.Beginning = fmt.Sprintf("%s is followed from now on", targets[0])
	return tail.Run(ctx, config, screen, opts)
}

// use makes a printer that of the options.
func (f *timelineFlags) use(opts *tail.Options, printer *timeline.Printer) {
	opts.Printer = printer
	if f.tellsStory() {
		opts.Story, opts.News.States = timeline.Story{Printer: printer}, true
	}
}

// relatives returns the resources to look at: those that --with names, or the usual ones that the server has.
func (f *timelineFlags) relatives(catalog *resources.Catalog, root resources.Resource) ([]resources.Target, error) {
	found := []resources.Target{{Resource: root}}
	add := func(some []resources.Resource) {
		for _, r := range some {
			if !slices.ContainsFunc(found, func(t resources.Target) bool { return t.GroupVersionResource == r.GroupVersionResource }) {
				found = append(found, resources.Target{Resource: r})
			}
		}
	}
	if len(f.kinds) > 0 {
		some, err := catalog.Resolve(f.kinds...)
		add(some)
		return found, err
	}
	for _, name := range usualRelatives {
		if some, err := catalog.Resolve(name); err == nil {
			add(some)
		}
	}
	return found, nil
}

// usualRelatives are the resources that --tree looks at.
var usualRelatives = []string{
	"deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "cronjobs.batch", "jobs.batch", "pods", "events",
}
