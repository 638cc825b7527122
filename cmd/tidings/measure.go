package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/kube"
	"github.com/tidings/tidings/cmd/tidings/internal/measure"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
)

// measureFlags are the flags of "tidings measure".
type measureFlags struct {
	cluster    kube.Flags
	namespaces kube.Namespaces
	output     string
	fields     int
	maxMB      int64
	options    measure.Options
}

// defaultResources are the resources to measure by default: those that most controllers cache, and the most
// numerous ones.
var defaultResources = []string{
	"pods", "nodes", "namespaces", "services", "endpointslices.discovery.k8s.io", "configmaps", "secrets", "serviceaccounts", "events",
	"deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch", "leases.coordination.k8s.io",
}

const measureExamples = `  # what would I save on the resources that most controllers cache?
  tidings measure

  # pods and a custom resource, with and without managedFields
  tidings measure pods,databases.example.com --trim

  # a large cluster: 5000 objects of each resource, and show what they share
  tidings measure --sample 5000 --fields 10`

func newMeasure() *cobra.Command {
	var f measureFlags
	cmd := &cobra.Command{
		Use:   "measure [RESOURCE[,RESOURCE...]]",
		Short: "Show how much memory it takes to cache resources with client-go, and with Tidings",
		Long: `measure answers the question "what would I save?" for your own cluster. It lists each resource once, decodes the same bytes
with client-go's decoder and with Tidings', and measures the memory that both take. It also shows the effect of a memory budget.

Resources are named as in kubectl: plural, singular, short name or kind, optionally followed by ".group" or
".version.group", several joined by commas, and categories such as "all". By default the resources that most
controllers cache are measured. Resources that you may not list are reported, and the others are still measured.

Nothing is written to the cluster: the only verbs are get, for discovery, and list. Of the objects, only
sizes and field names are shown, never a value.`,
		Example: measureExamples,
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.bind(cmd)
	cmd.ValidArgsFunction = completeResources(&f.cluster)
	complete(cmd, "namespace", namespaceNames(&f.cluster))
	complete(cmd, "output", fixedValues("text", "json"))
	completeCluster(cmd, &f.cluster)
	return cmd
}

func (f *measureFlags) bind(cmd *cobra.Command) {
	set := cmd.Flags()
	set.SortFlags = false
	f.namespaces.Bind(set)
	set.Lookup("namespace").Usage = "namespaces, repeated or comma-separated (default all)"
	set.StringVarP(&f.output, "output", "o", "text", "text or json (see docs/measure.md)")
	set.IntVar(&f.fields, "fields", 0, "also show this many fields of each resource, those that share the most")
	set.BoolVar(&f.options.Trim, "trim", false, "also measure without metadata.managedFields")
	set.IntVar(&f.options.Sample, "sample", 0, "decode at most this many objects of each resource, and extrapolate (0 = no limit)")
	set.Int64Var(&f.maxMB, "max-mb", measure.DefaultMaxBytes>>20, "decode at most this many MiB of each resource, and extrapolate; the command needs 5 to 10 times as much memory")
	f.cluster.Bind(set)
}

// run measures the resources that args name.
func (f *measureFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.check(); err != nil {
		return cli.Usage(err)
	}
	screen := cli.NewScreen(cmd.OutOrStdout(), cmd.ErrOrStderr())
	return screen.End(f.measure(cmd, screen, args), closeGrace)
}

func (f *measureFlags) measure(cmd *cobra.Command, screen *cli.Screen, args []string) error {
	ctx := cmd.Context()
	logger := cli.NewLogger(screen.ErrWriter(ctx), slog.LevelWarn)
	config, client, err := connect(&f.cluster, logger)
	if err != nil {
		return err
	}
	opts := f.options
	opts.MaxBytes, opts.Progress = f.maxMB<<20, func(text string) { screen.Progress(text) }
	if set := cmd.Flags(); set.Changed("namespace") || set.Changed("all-namespaces") {
		if opts.Namespaces, err = f.namespaces.List(&f.cluster); err != nil {
			return cli.Usage(err)
		}
	}
	if opts.Resources, err = resourcesToMeasure(ctx, client, args, logger); err != nil {
		return err
	}
	report, err := measure.Run(ctx, config, opts)
	if err != nil {
		return err
	}
	text, err := f.print(report, cli.Width(cmd.OutOrStdout()))
	if err != nil {
		return err
	}
	return errors.Join(screen.Out(ctx, text), report.Err())
}

// check checks what can be checked without a cluster.
func (f *measureFlags) check() error {
	switch {
	case f.output != "text" && f.output != "json":
		return fmt.Errorf("--output %q: want text or json", f.output)
	case f.maxMB < 1 || f.maxMB > 1<<20:
		return fmt.Errorf("--max-mb %d: want 1 to %d", f.maxMB, 1<<20)
	}
	return cmp.Or(notNegative("fields", f.fields), notNegative("sample", f.options.Sample))
}

// print formats the report as requested, as text for a terminal of this width; 0 means not a terminal.
func (f *measureFlags) print(report measure.Report, width int) ([]byte, error) {
	if f.output == "text" {
		return []byte(report.Text(f.fields, width)), nil
	}
	text, err := json.MarshalIndent(report, "", "  ")
	return append(cli.PrintableJSON(text), '\n'), err
}

// resourcesToMeasure is like find, but without arguments it returns the default resources, as far as the server has
// them.
func resourcesToMeasure(ctx context.Context, client discovery.ServerResourcesInterface, args []string, logger *slog.Logger) ([]resources.Resource, error) {
	if len(args) > 0 {
		return findResources(ctx, client, args, logger)
	}
	catalog, err := discover(ctx, client, logger)
	if err != nil {
		return nil, err
	}
	var found []resources.Resource
	for _, name := range defaultResources {
		if some, err := catalog.Resolve(name); err == nil {
			found = append(found, some...)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("the server has none of the resources that are measured by default; name some")
	}
	return found, nil
}
