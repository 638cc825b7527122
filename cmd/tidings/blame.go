package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/cmd/tidings/internal/blame"
	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/kube"
	"github.com/tidings/tidings/cmd/tidings/internal/moments"
	"github.com/tidings/tidings/cmd/tidings/internal/resources"
	"github.com/tidings/tidings/internal/redact"
	"github.com/tidings/tidings/source/recording"
)

// blameFlags are the flags of "tidings blame".
type blameFlags struct {
	cluster    kube.Flags
	namespaces kube.Namespaces
	from       string
	at         string
	output     string
}

const blameExamples = `  # who set each field of a deployment
  tidings blame deploy/web -n shop

  # the same at the end of a recording, with its changes, and the values before
  tidings blame deploy/web --from shop.tidings

  # as it was at 10:02, with what had changed until then
  tidings blame deploy/web --from shop.tidings --at 10:02`

func newBlame() *cobra.Command {
	var f blameFlags
	cmd := &cobra.Command{
		Use:   "blame RESOURCE/NAME",
		Short: "Show who set each field of an object, and when",
		Long: `blame shows an object field by field, each with the field managers that own it and the time since they last
wrote. With a recording (--from) it shows the object's last state there, or that at a moment of it (--at), and for each
field that had changed until then when that was, by whom, and what was there before.

A moment is a time of day (10:02, 10:02:07), a time after the start (+90s), start, end, or a time in RFC 3339.

The server keeps one time for each manager, not for each field. The values of Secrets are not shown.`,
		Example: blameExamples,
		Args:    oneObject,
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	set := cmd.Flags()
	set.SortFlags = false
	f.namespaces.Bind(set)
	set.StringVar(&f.from, "from", "", "read the object from this `recording` instead of the cluster")
	set.StringVar(&f.at, "at", "", "with --from, the object as it was at this `moment`")
	set.StringVarP(&f.output, "output", "o", "text", "text or json (see docs/blame.md)")
	f.cluster.Bind(set)
	cmd.ValidArgsFunction = completeResources(&f.cluster)
	complete(cmd, "namespace", namespaceNames(&f.cluster))
	complete(cmd, "output", fixedValues("text", "json"))
	complete(cmd, "at", fixedValues("start", "end", "+1m"))
	completeCluster(cmd, &f.cluster)
	return cmd
}

var errOneObject = errors.New("name one object, such as deploy/web")

func (f *blameFlags) run(cmd *cobra.Command, args []string) error {
	var object map[string]any
	var sets map[string]blame.Set
	now := time.Now()
	var err error
	switch {
	case f.output != "text" && f.output != "json":
		err = cli.Usage(fmt.Errorf("--output %q: want text or json", f.output))
	case f.from != "":
		object, sets, now, err = f.recorded(args)
	case f.at != "":
		err = cli.Usage(fmt.Errorf("--at %s: only a recording has earlier moments: name one with --from", f.at))
	default:
		object, err = f.get(cmd, args)
	}
	if err != nil {
		return err
	}
	if f.output == "json" {
		text, err := blame.JSON(object, sets)
		if err != nil {
			return err
		}
		return cli.Write(cmd.OutOrStdout(), text)
	}
	return cli.Write(cmd.OutOrStdout(), blame.Text(object, sets, cli.Width(cmd.OutOrStdout()), now))
}

// recorded returns the object as it was at the moment, with what had set its fields until then, and the moment.
func (f *blameFlags) recorded(args []string) (
	object map[string]any, sets map[string]blame.Set, at time.Time, err error,
) {
	rec, err := recording.Open(f.from)
	if err != nil {
		return nil, nil, at, err
	}
	defer func() { _ = rec.Close() }() // it was only read
	only, err := selectFrom(rec, args, &f.namespaces, "")
	if err == nil && (len(only.Targets) != 1 || only.Targets[0].Object == "") {
		err = errOneObject
	}
	if err != nil {
		return nil, nil, at, cli.Usage(err)
	}
	began, _ := rec.Began()
	if at, err = moments.Parse(cmp.Or(f.at, "end"), began, rec.Duration()); err != nil {
		return nil, nil, at, cli.Usage(fmt.Errorf("--at %w", err))
	}
	past, err := moments.Read(rec, only, began, at)
	if err != nil {
		return nil, nil, at, err
	}
	found := past.Objects()
	if len(found) > 1 {
		return nil, nil, at, cli.Usage(fmt.Errorf("%s: choose a namespace with -n: %s", only.Targets[0],
			namespacesOf(found)))
	}
	if len(found) == 1 {
		object, sets, err = f.state(found[0], at)
	}
	if err == nil && object == nil {
		err = fmt.Errorf("%s: there is no %s at %s", f.from, only.Targets[0], cmp.Or(f.at, "any time"))
	}
	return object, sets, at, err
}

// state returns the object as it was at the moment of --at, or else its last state, and what had set its fields.
func (f *blameFlags) state(o *moments.Object, at time.Time) (map[string]any, map[string]blame.Set, error) {
	last, sets, err := blame.Recorded(o)
	if err != nil || f.at == "" {
		return last, sets, err
	}
	then, err := o.At(at)
	if err != nil || then == nil {
		return nil, nil, err
	}
	return then.Object, sets, nil
}

func namespacesOf(objects []*moments.Object) string {
	var names []string
	for _, o := range objects {
		names = append(names, o.Namespace())
	}
	return strings.Join(names, ", ")
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
	if len(targets) != 1 || targets[0].Object == "" || len(namespaces) != 1 ||
		targets[0].Namespaced && namespaces[0] == "" {
		return nil, cli.Usage(fmt.Errorf("%w, in one namespace", errOneObject))
	}
	return getObject(ctx, config, targets[0], namespaces[0])
}

// absentError says that there is no such object.
type absentError struct {
	target    resources.Target
	namespace string
}

func (e absentError) Error() string {
	if !e.target.Namespaced {
		return fmt.Sprintf("there is no %s", e.target)
	}
	return fmt.Sprintf("there is no %s in the namespace %s", e.target, e.namespace)
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
	path = append(path, t.GroupVersionResource.Resource, t.Object)
	result := client.Get().AbsPath(path...).SetHeader("Accept", "application/json").Do(ctx)
	if err := result.Error(); apierrors.IsNotFound(err) { // unlike Raw's, it is what the server says
		return nil, absentError{t, namespace}
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	data, err := result.Raw()
	if err != nil {
		return nil, err
	}
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(data); err != nil {
		return nil, redact.Decoding(err)
	}
	return redact.Object(t.GroupResource(), u.Object), nil
}
