// Package kube gets a cluster's address and credentials from the flags and the kubeconfig, as kubectl does.
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
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Flags are the flags that choose a cluster and the user to be there: --kubeconfig, --context, --cluster, --user,
// --server, --token and their like, with kubectl's names and meanings. The zero value is ready to be bound.
type Flags struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
}

// Bind adds the flags to set. They are read when RESTConfig is called.
func (f *Flags) Bind(set *pflag.FlagSet) {
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, then ~/.kube/config, then the pod's service account)")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace.LongName = ""          // commands differ in how many they take: see Namespaces
	names.Timeout.LongName = ""                                 // it would end every watch
	names.ClusterOverrideFlags.DisableCompression.LongName = "" // of no use to a program that asks for none
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	clientcmd.BindOverrideFlags(&f.overrides, set, names)
}

func (f *Flags) loader() (clientcmd.ClientConfig, *clientcmd.ClientConfigLoadingRules) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.overrides), rules
}

// RESTConfig reads the kubeconfig and returns what a client needs. Its errors name the file and the way out. What
// the server warns of while the configuration is used goes to the logger.
func (f *Flags) RESTConfig(logger *slog.Logger) (*rest.Config, error) {
	loader, rules := f.loader()
	if err := f.check(loader, rules); err != nil {
		return nil, err
	}
	config, err := loader.ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("no cluster given: there is nothing in %s; set --kubeconfig, $KUBECONFIG or --server", files(rules))
	case err != nil:
		return nil, fmt.Errorf("kubeconfig %s: %w", files(rules), err)
	}
	config.UserAgent = "tidings"
	config.WarningHandlerWithContext = warnings{logger}
	return config, nil
}

// check finds the mistakes that client-go tells in its own words or not at all.
func (f *Flags) check(loader clientcmd.ClientConfig, rules *clientcmd.ClientConfigLoadingRules) error {
	raw, err := loader.RawConfig()
	if err != nil {
		return fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	context, err := pick("context", cmp.Or(f.overrides.CurrentContext, raw.CurrentContext), raw.Contexts, rules)
	if err != nil {
		return err
	}
	if context == nil {
		context = &api.Context{}
	}
	if _, err := pick("cluster", cmp.Or(f.overrides.Context.Cluster, context.Cluster), raw.Clusters, rules); err != nil && f.overrides.ClusterInfo.Server == "" {
		return err
	}
	_, err = pick("user", cmp.Or(f.overrides.Context.AuthInfo, context.AuthInfo), raw.AuthInfos, rules)
	return err
}

// pick finds the entry of this name. No name is no error: the flags may say all that is needed.
func pick[E any](what, name string, entries map[string]*E, rules *clientcmd.ClientConfigLoadingRules) (*E, error) {
	if entry := entries[name]; name == "" || entry != nil {
		return entry, nil
	}
	known := strings.Join(slices.Sorted(maps.Keys(entries)), ", ")
	return nil, fmt.Errorf("there is no %s %q in %s; it has: %s", what, name, files(rules), cmp.Or(known, "none"))
}

// files names where the configuration comes from.
func files(rules *clientcmd.ClientConfigLoadingRules) string {
	if rules.ExplicitPath != "" {
		return rules.ExplicitPath
	}
	return strings.Join(slices.DeleteFunc(slices.Clone(rules.Precedence), func(s string) bool { return s == "" }), ", ")
}

// warnings logs what a server says in Warning headers, such as that a version is deprecated.
type warnings struct{ logger *slog.Logger }

func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _ string, text string) {
	if code == 299 && text != "" {
		w.logger.WarnContext(ctx, "the server warns", "text", text)
	}
}

// Namespaces are the flags that choose namespaces: --namespace, which can be repeated and takes lists, and
// --all-namespaces. The zero value is ready to be bound.
type Namespaces struct {
	names []string
	all   bool
}

// Bind adds the flags to set.
func (n *Namespaces) Bind(set *pflag.FlagSet) {
	set.StringSliceVarP(&n.names, "namespace", "n", nil, "namespaces, repeated or joined by commas (default the context's namespace)")
	set.BoolVarP(&n.all, "all-namespaces", "A", false, "all namespaces")
}

// List returns the namespaces that the flags name, each once; one empty name stands for all of them. Without flags
// it is the namespace of the context. It fails for flags that contradict each other and for impossible names.
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
		return nil, fmt.Errorf("cannot tell the context's namespace: %w", err)
	}
	return []string{name}, nil
}

func checkNames(names []string) ([]string, error) {
	var list []string
	for _, name := range names {
		name = strings.TrimSpace(name)
		if reasons := validation.IsDNS1123Label(name); len(reasons) > 0 {
			return nil, fmt.Errorf("%q cannot be a namespace: %s", name, reasons[0])
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list, nil
}
