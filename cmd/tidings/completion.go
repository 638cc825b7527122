package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/kube"
)

// completionTimeout limits how long a completion waits for the cluster.
const completionTimeout = 2 * time.Second

// completionPage limits the number of namespaces that are completed.
const completionPage = 500

// complete makes values complete a flag.
func complete(cmd *cobra.Command, flag string, values func(ctx context.Context) []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeLast(cmd, toComplete, values)
	})
	if err != nil {
		panic(err) // there is no such flag, which is a bug
	}
}

// completeLast completes the last of several comma-separated values.
func completeLast(cmd *cobra.Command, toComplete string, values func(ctx context.Context) []string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	given := toComplete[:strings.LastIndexByte(toComplete, ',')+1]
	var found []cobra.Completion
	for _, value := range values(ctx) {
		if taken := slices.Contains(strings.Split(given, ","), value); !taken && strings.HasPrefix(value, toComplete[len(given):]) {
			found = append(found, given+cli.Printable(value))
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// fixedValues returns constant values.
func fixedValues(values ...string) func(context.Context) []string {
	return func(context.Context) []string { return values }
}

// completeCluster completes the flags that select the cluster.
func completeCluster(cmd *cobra.Command, cluster *kube.Flags) {
	complete(cmd, "context", func(context.Context) []string { return cluster.Contexts() })
	complete(cmd, "cluster", func(context.Context) []string { return cluster.Clusters() })
	complete(cmd, "user", func(context.Context) []string { return cluster.Users() })
}

// resourceNames returns the names of the cluster's watchable resources, or nothing if it does not answer.
func resourceNames(cluster *kube.Flags) func(context.Context) []string {
	return func(ctx context.Context) []string {
		quiet := slog.New(slog.DiscardHandler)
		_, client, err := connect(cluster, quiet)
		if err != nil {
			return nil
		}
		catalog, err := discover(ctx, client, quiet)
		if err != nil {
			return nil
		}
		return catalog.Names()
	}
}

// completeResources completes arguments that name resources.
func completeResources(cluster *kube.Flags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeLast(cmd, toComplete, resourceNames(cluster))
	}
}

// namespaceNames returns the namespaces of the cluster, or nothing if it does not answer or denies access.
func namespaceNames(cluster *kube.Flags) func(context.Context) []string {
	return func(ctx context.Context) []string {
		config, err := cluster.RESTConfig(slog.New(slog.DiscardHandler))
		if err != nil {
			return nil
		}
		answered := make(chan []string, 1)
		go func() { answered <- listNamespaces(ctx, config) }() // a credential plugin does not get ctx
		select {
		case names := <-answered:
			return names
		case <-ctx.Done():
			return nil
		}
	}
}

func listNamespaces(ctx context.Context, config *rest.Config) []string {
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil
	}
	request := client.Get().AbsPath("/api/v1/namespaces").VersionedParams(&metav1.ListOptions{Limit: completionPage}, metav1.ParameterCodec)
	request.SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	data, err := request.Do(ctx).Raw()
	var list metav1.PartialObjectMetadataList
	if err != nil || json.Unmarshal(data, &list) != nil {
		return nil
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}
