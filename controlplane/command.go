package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
)

const usage = `Run a real kube-apiserver on an embedded etcd, in one process, on the loopback address.

Once the server is ready, one line with its address and kubeconfig is printed to
standard output. Logs go to standard error. SIGTERM or SIGINT ends the process
cleanly; started again on the same --data-dir it goes on where it was.

Flags after -- are given to kube-apiserver, and win over the defaults:

  controlplane --data-dir /tmp/cp -- --v=2 --runtime-config=api/all=true`

// newCommand returns the command: the root serves, and a subcommand mints users.
func newCommand() *cobra.Command {
	var opts serveOptions
	var exitWithStdin bool
	cmd := &cobra.Command{
		Use:           "controlplane --data-dir DIR [flags] [-- kube-apiserver flags]",
		Long:          usage,
		Args:          onlyAfterDash,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if exitWithStdin {
				// A terminal sends the interrupt to the parent too, and the parent decides.
				signal.Ignore(os.Interrupt)
				ctx = endWith(ctx, cmd.InOrStdin())
			}
			opts.apiserverArgs = args
			opts.out = cmd.OutOrStdout()
			err := serve(ctx, opts)
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return nil // stopped before anything had started
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.dataDir, "data-dir", "", "folder for etcd's data, the certificates and the admin kubeconfig (required)")
	flags.StringVar(&opts.kubeconfig, "kubeconfig", "", "also write the admin kubeconfig to this file, with mode 0600, once the server is ready")
	flags.IntVar(&opts.port, "port", 0, "port on 127.0.0.1; 0 takes a free one")
	flags.StringSliceVar(&opts.etcdServers, "etcd-servers", nil, "use this etcd cluster (comma-separated URLs) instead of the embedded one")
	flags.StringVar(&opts.featureGates, "feature-gates", "", "kube-apiserver feature gates, as Name=true,Other=false")
	flags.BoolVar(&opts.unsafeNoFsync, "unsafe-no-fsync", false, "do not wait for the disk: faster, and data may be lost when the machine (not the process) dies")
	flags.BoolVar(&exitWithStdin, "exit-with-stdin", false, "end cleanly when standard input is closed, as it is when the parent process dies, and ignore SIGINT")
	cmd.AddCommand(newUserCommand())
	return cmd
}

// onlyAfterDash accepts only arguments after --, so that a mistyped flag is not passed on.
func onlyAfterDash(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	if dash < 0 {
		dash = len(args)
	}
	if dash > 0 {
		return fmt.Errorf("unexpected argument %q; kube-apiserver flags go behind --, see --help", args[0])
	}
	return nil
}

func newUserCommand() *cobra.Command {
	var dataDir string
	var groups []string
	cmd := &cobra.Command{
		Use:           "user --data-dir DIR [--group GROUP]... NAME",
		Short:         "Print a kubeconfig for a user, who may do what RBAC grants to the name and its groups",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return errors.New("give exactly one user name, as in: controlplane user --data-dir DIR alice")
			}
			config, err := userKubeconfig(layout(dataDir), args[0], groups)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(config)
			return err
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", "", "data folder of the control plane, which must have been ready once (required)")
	cmd.Flags().StringArrayVar(&groups, "group", nil, "group the user belongs to; may be given several times")
	return cmd
}

// endWith returns a context that also ends when r does. The reading goroutine runs until the process exits:
// reading standard input cannot be interrupted.
func endWith(ctx context.Context, r io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, r)
	}()
	return ctx
}
