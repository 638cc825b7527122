// Package kube determines a cluster's address and credentials from the flags and the kubeconfig, as kubectl does.
package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Flags are the flags that select a cluster and a user: --kubeconfig, --context, --cluster, --user, --server,
// --token and so on, with kubectl's names and meanings. The zero value is ready to be bound.
type Flags struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
}

// Bind adds the flags to set. They are read when RESTConfig is called.
func (f *Flags) Bind(set *pflag.FlagSet) {
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, then ~/.kube/config, then the pod's service account)")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace.LongName = ""          // commands differ in how many they accept: see Namespaces
	names.Timeout.LongName = ""                                 // it would end every watch
	names.ClusterOverrideFlags.DisableCompression.LongName = "" // of no use to a program that requests none
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	clientcmd.BindOverrideFlags(&f.overrides, set, names)
}

func (f *Flags) loader() (clientcmd.ClientConfig, *clientcmd.ClientConfigLoadingRules) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.overrides), rules
}

// RESTConfig reads the kubeconfig and returns a client configuration. Its errors name the file and a remedy.
// Warnings that the server sends while the configuration is used go to the logger.
func (f *Flags) RESTConfig(logger *slog.Logger) (*rest.Config, error) {
	loader, rules := f.loader()
	if err := f.check(loader, rules); err != nil {
		return nil, err
	}
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("no cluster given: there is none in %s; set --kubeconfig, $KUBECONFIG or --server", files(rules))
	case err == nil:
		err = checkConfig(config)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.origin(rules), err)
	}
	config.UserAgent = "tidings"
	config.WarningHandlerWithContext = warnings{logger}
	return config, nil
}

// check reports mistakes for which client-go's errors are unclear or missing.
func (f *Flags) check(loader clientcmd.ClientConfig, rules *clientcmd.ClientConfigLoadingRules) error {
	raw, err := loader.RawConfig()
	if err != nil {
		return cmp.Or(whyUnreadable(rules), fmt.Errorf("cannot read the kubeconfig: %w", err))
	}
	context, err := lookUp("context", cmp.Or(f.overrides.CurrentContext, raw.CurrentContext), raw.Contexts, rules)
	if err != nil {
		return err
	}
	if context == nil {
		context = &api.Context{}
	}
	if _, err := lookUp("cluster", cmp.Or(f.overrides.Context.Cluster, context.Cluster), raw.Clusters, rules); err != nil && f.overrides.ClusterInfo.Server == "" {
		return err
	}
	_, err = lookUp("user", cmp.Or(f.overrides.Context.AuthInfo, context.AuthInfo), raw.AuthInfos, rules)
	return err
}

// origin names what the configuration comes from.
func (f *Flags) origin(rules *clientcmd.ClientConfigLoadingRules) string {
	origin := "kubeconfig " + files(rules)
	same := equality.Semantic.DeepEqual // a bound map is empty, not nil
	if !same(f.overrides.ClusterInfo, api.Cluster{}) || !same(f.overrides.AuthInfo, api.AuthInfo{}) {
		return origin + " together with the flags"
	}
	return origin
}

// lookUp returns the entry with this name. An empty name is not an error: the flags may be sufficient.
func lookUp[E any](what, name string, entries map[string]*E, rules *clientcmd.ClientConfigLoadingRules) (*E, error) {
	if entry := entries[name]; name == "" || entry != nil {
		return entry, nil
	}
	known := strings.Join(slices.Sorted(maps.Keys(entries)), ", ")
	return nil, fmt.Errorf("there is no %s %q in %s; it has: %s", what, name, files(rules), cmp.Or(known, "none"))
}

// files names the files from which the configuration comes.
func files(rules *clientcmd.ClientConfigLoadingRules) string {
	if rules.ExplicitPath != "" {
		return rules.ExplicitPath
	}
	return strings.Join(slices.DeleteFunc(slices.Clone(rules.Precedence), func(s string) bool { return s == "" }), ", ")
}

// warnings logs the server's Warning headers, for example for deprecated versions.
type warnings struct{ logger *slog.Logger }

func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _ string, text string) {
	if code == 299 && text != "" {
		w.logger.WarnContext(ctx, "the server warns", "text", text)
	}
}

// Namespaces are the flags that select namespaces: --namespace, which can be repeated and takes lists, and
// --all-namespaces. The zero value is ready to be bound.
type Namespaces struct {
	names []string
	all   bool
}

// Bind adds the flags to set.
func (n *Namespaces) Bind(set *pflag.FlagSet) {
	set.StringSliceVarP(&n.names, "namespace", "n", nil, "namespaces, repeated or comma-separated (default the context's namespace)")
	set.BoolVarP(&n.all, "all-namespaces", "A", false, "all namespaces")
}

// List returns the selected namespaces without duplicates; a single empty name means all. Without flags it returns
// the namespace of the context. It fails for contradictory flags and invalid names,
// for which a server returns empty lists.
func (n *Namespaces) List(f *Flags) ([]string, error) {
	switch {
	case n.all && len(n.names) > 0:
		return nil, errors.New("--all-namespaces and --namespace contradict each other; use one of them")
	case n.all:
		return []string{""}, nil
	case len(n.names) > 0:
		return checkNames(n.names)
	}
	loader, _ := f.loader()
	name, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("cannot determine the context's namespace: %w", err)
	}
	if _, err := checkNames([]string{name}); err != nil {
		return nil, fmt.Errorf("the context's namespace: %w", err)
	}
	return []string{name}, nil
}

func checkNames(names []string) ([]string, error) {
	var list []string
	for _, name := range names {
		name = strings.TrimSpace(name)
		if reasons := validation.IsDNS1123Label(name); len(reasons) > 0 {
			return nil, fmt.Errorf("%q is not a valid namespace: %s", name, reasons[0])
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list, nil
}

// Named returns the namespaces that are named, without asking the kubeconfig; none means all.
func (n *Namespaces) Named() ([]string, error) {
	if n.all {
		return nil, nil
	}
	return checkNames(n.names)
}
