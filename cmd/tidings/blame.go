package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/cmd/tidings/internal/blame"
	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/kube"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/source/recording"
)

// blameFlags are the flags of "tidings blame".
type blameFlags struct {
	cluster    kube.Flags
	namespaces kube.Namespaces
	from       string
}

const blameExamples = `  # who set each field of a deployment
  tidings blame deploy/web -n shop

  # the same at the end of a recording, with its changes, and the values before
  tidings blame deploy/web --from shop.tidings`

func newBlame() *cobra.Command {
	var f blameFlags
	cmd := &cobra.Command{
		Use:   "blame RESOURCE/NAME",
		Short: "Show who set each field of an object, and when",
		Long: `blame shows an object field by field, each with the field managers that own it and the time since they last wrote. With
a recording (--from) it shows the object's last state there, and for each field that changed when that was, by whom, and
what was there before.

The server keeps one time for each manager, not for each field. The values of Secrets are not shown.`,
		Example: blameExamples,
		Args:    oneObject,
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	f.namespaces.Bind(set)
	set.StringVar(&f.from, "from", "", "read the object from this `recording` instead of the cluster")
	f.cluster.Bind(set)
	cmd.ValidArgsFunction = completeResources(&f.cluster)
	complete(cmd, "namespace", namespaceNames(&f.cluster))
	completeCluster(cmd, &f.cluster)
	return cmd
}

var errOneObject = errors.New("name one object, such as deploy/web")

func (f *blameFlags) run(cmd *cobra.Command, args []string) error {
	var object map[string]any
	var sets map[string]blame.Set
	now := time.Now()
	var err error
	if f.from != "" {
		object, sets, now, err = f.recorded(args)
	} else {
		object, err = f.get(cmd, args)
	}
	if err != nil {
		return err
	}
	return cli.Write(cmd.OutOrStdout(), blame.Text(object, sets, cli.Width(cmd.OutOrStdout()), now))
}

// recorded returns the last state of the object in the recording, what set its fields, and when the recording ended.
func (f *blameFlags) recorded(args []string) (object map[string]any, sets map[string]blame.Set, end time.Time, err error) {
	rec, err := recording.Open(f.from)
	if err != nil {
		return nil, nil, end, err
	}
	defer func() { _ = rec.Close() }() // it was only read
	only, err := selectFrom(rec, args, &f.namespaces, "")
	if err == nil && (len(only.Targets) != 1 || only.Targets[0].Object == "") {
		err = errOneObject
	}
	if err != nil {
		return nil, nil, end, cli.Usage(err)
	}
	last, sets, err := blame.Recorded(rec, only)
	if err != nil {
		return nil, nil, end, err
	}
	if last == nil {
		return nil, nil, end, fmt.Errorf("%s: there is no %s", f.from, only.Targets[0])
	}
	began, _ := rec.Began()
	return redact.Object(only.Targets[0].GroupResource(), last.Object), sets, began.Add(rec.Duration()), nil
}

// get gets the object from the cluster.
func (f *blameFlags) get(cmd *cobra.Command, args []string) (map[string]any, error) {
	ctx := cmd.Context()
	logger := cli.NewLogger(cmd.ErrOrStderr(), slog.LevelWarn)
	config, client, err := connect(&f.cluster, logger)
	if err != nil {
		return nil, err
	}
	namespaces, err := f.namespaces.List(&f.cluster)
	if err != nil {
		return nil, cli.Usage(err)
	}
	targets, err := find(ctx, client, args, logger)
	if err != nil {
		return nil, err
	}
	if len(targets) != 1 || targets[0].Object == "" || len(namespaces) != 1 || targets[0].Namespaced && namespaces[0] == "" {
		return nil, cli.Usage(fmt.Errorf("%w, in one namespace", errOneObject))
	}
	return getObject(ctx, config, targets[0], namespaces[0])
}

// getObject gets an object without the values of Secrets.
func getObject(ctx context.Context, config *rest.Config, t resources.Target, namespace string) (map[string]any, error) {
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	path := []string{"/api", t.Version}
	if t.Group != "" {
		path = []string{"/apis", t.Group, t.Version}
	}
	if t.Namespaced {
		path = append(path, "namespaces", namespace)
	}
	data, err := client.Get().AbsPath(append(path, t.GroupVersionResource.Resource, t.Object)...).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(data); err != nil {
		return nil, redact.Decoding(err)
	}
	return redact.Object(t.GroupResource(), u.Object), nil
}
