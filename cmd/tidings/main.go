// Command tidings shows, records and measures what happens in a Kubernetes cluster.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
)

func main() {
	os.Exit(cli.Main(newRoot(), os.Args[1:]))
}

// newRoot returns the root command with all its commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "tidings",
		Short: "Follow changes in a Kubernetes cluster, and move programs to Tidings",
		Long: `tidings follows changes in a Kubernetes cluster, measures what caching its objects takes, and moves programs to Tidings.

Every command exits with 0 when it is done or was interrupted, with 1 when something went wrong, and with 2 when
the command line is invalid.`,
		Args: knownCommand,
	}
	root.SuggestionsMinimumDistance = 2
	showVersion := root.Flags().Bool("version", false, "show the version of this program")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *showVersion {
			return writeVersion(cmd)
		}
		return cmd.Help()
	}
	root.AddCommand(newTail(), newReplay(), newTimeline(), newDiff(), newBlame(), newTop(), newMeasure(), newMigrate(), newControllerManager(), newVersion())
	return root
}

// knownCommand returns an error for an argument that is no command, with what was probably meant.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("%s; did you mean %s?", text, strings.Join(near, " or "))
	}
	return fmt.Errorf("%s; to follow a resource: tidings tail %s", text, strings.Join(args, " "))
}
