package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

const (
	serviceRange = "10.96.0.0/16"
	// watchGrace is how long open watches may take to end at a clean shutdown. Without it the server waits a
	// minute for clients to hang up.
	watchGrace = 2 * time.Second

	serviceAccountIssuer = "https://kubernetes.default.svc"
)

// serviceAddress is the first address of serviceRange, which the API server assigns to the kubernetes
// service.
func serviceAddress() net.IP { return net.IPv4(10, 96, 0, 1) }

// parseAPIServerOptions returns the options of a kube-apiserver on the files of l, with args on top. It
// reports every mistake in the flags before anything has been started.
func parseAPIServerOptions(l layout, args []string) (*options.ServerRunOptions, error) {
	opts := defaultAPIServerOptions(l)
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range opts.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		return nil, fmt.Errorf("kube-apiserver flags: %w", err)
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("kube-apiserver flags: %q is not a flag", flags.Arg(0))
	}
	for flag, instead := range map[string]string{
		"secure-port":  "--port",
		"bind-address": "--port, the address is always 127.0.0.1",
		"etcd-servers": "--etcd-servers before the --",
	} {
		if flags.Changed(flag) {
			return nil, fmt.Errorf("kube-apiserver flags: --%s is set by this program; use %s", flag, instead)
		}
	}
	if err := opts.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, fmt.Errorf("kube-apiserver flags: %w", err)
	}
	gates := opts.GenericServerRunOptions.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gates); err != nil {
		return nil, fmt.Errorf("kube-apiserver flags: %w", err)
	}
	disableServiceAccounts(opts)
	return opts, nil
}

func defaultAPIServerOptions(l layout) *options.ServerRunOptions {
	opts := options.NewServerRunOptions()
	opts.ServiceClusterIPRanges = serviceRange
	opts.AllowPrivileged = true
	// The endpoints of the kubernetes service must not be loopback addresses, and there are no others.
	opts.EndpointReconcilerType = "none"
	opts.GenericServerRunOptions.AdvertiseAddress = net.IPv4(127, 0, 0, 1)
	opts.GenericServerRunOptions.ExternalHost = "127.0.0.1"
	opts.GenericServerRunOptions.ShutdownWatchTerminationGracePeriod = watchGrace
	opts.SecureServing.ServerCert.CertKey.CertFile = l.servingCert()
	opts.SecureServing.ServerCert.CertKey.KeyFile = l.servingKey()
	opts.Authentication.ClientCert.ClientCA = l.caCert()
	opts.Authentication.ServiceAccounts.Issuers = []string{serviceAccountIssuer}
	opts.Authentication.ServiceAccounts.KeyFiles = []string{l.serviceAccountKey()}
	opts.ServiceAccountSigningKeyFile = l.serviceAccountKey()
	opts.Authorization.Modes = []string{"RBAC"}
	return opts
}

// disableServiceAccounts turns off the ServiceAccount admission plugin unless the user has enabled it. It
// would reject every pod, because no controller creates the default service account of a namespace.
func disableServiceAccounts(opts *options.ServerRunOptions) {
	const plugin = "ServiceAccount"
	admission := opts.Admission.GenericAdmission
	if slices.Contains(admission.EnablePlugins, plugin) || slices.Contains(admission.DisablePlugins, plugin) {
		return
	}
	admission.DisablePlugins = append(admission.DisablePlugins, plugin)
}

// completeAPIServerOptions derives what follows from the flags, and validates the result. The files that the
// options name have to exist.
func completeAPIServerOptions(ctx context.Context, opts *options.ServerRunOptions, listener net.Listener, etcdServers []string) (options.CompletedOptions, error) {
	opts.SecureServing.Listener = listener
	opts.Etcd.StorageConfig.Transport.ServerList = etcdServers
	completed, err := opts.Complete(ctx)
	if err != nil {
		return options.CompletedOptions{}, fmt.Errorf("kube-apiserver flags: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return options.CompletedOptions{}, fmt.Errorf("kube-apiserver flags: %w", utilerrors.NewAggregate(errs))
	}
	return completed, nil
}

// runAPIServer serves until ctx ends, and then waits for the requests in flight.
func runAPIServer(ctx context.Context, opts options.CompletedOptions) error {
	// The server is a client of itself; these warnings are not for the user.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	return app.Run(ctx, opts)
}
