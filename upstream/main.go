// Upstream runs unmodified controllers of Kubernetes on this project's informers and on
// client-go's, and compares the two.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/tidings/tidings/upstream/internal/compare"
)

func main() {
	root := &cobra.Command{
		Use:           "upstream",
		Short:         "Run controllers of Kubernetes on two informer stacks and compare them",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(controllersCommand(), compareCommand())
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func controllersCommand() *cobra.Command {
	var engine, kubeconfig, profiles string
	cmd := &cobra.Command{
		Use:   "controllers",
		Short: "Run the controllers until standard input ends, then print what they used",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return compare.RunControllers(cmd.Context(), engine, kubeconfig, profiles, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&engine, "engine", "", "tidings or client-go")
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "the cluster; none of its own controllers may run")
	cmd.Flags().StringVar(&profiles, "profiles", "", "folder for a CPU and a heap profile")
	_ = cmd.MarkFlagRequired("engine")
	_ = cmd.MarkFlagRequired("kubeconfig")
	return cmd
}
