package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
	"github.com/tidings/tidings/cmd/tidings/internal/migrate"
)

const migrateExamples = `  # show what would change in the program in this folder
  tidings migrate ./...

  # change it
  tidings migrate --write ./...`

func newMigrate() *cobra.Command {
	var write bool
	cmd := &cobra.Command{
		Use:   "migrate [PACKAGE...]",
		Short: "Change a program's imports so that its informers run on Tidings",
		Long: `migrate changes the Go source of a program that uses client-go's informers or controller-runtime so that its caches run on
Tidings. It shows the changes as a diff, or makes them with --write. It lists what it leaves alone, and why.

  - Imports of client-go's informers, tools/cache, util/workqueue, dynamicinformer and metadatainformer become those of the packages
    under github.com/tidings/tidings/clientgo that have the same names. Files that only use types of these packages are not changed.
  - Imports of the generated factories of custom resources become that of a small package of the
    program, which it writes.
  - The options of a controller-runtime manager get NewCache: tidingsruntime.NewCache.

Packages are named as for the go command; the default is ./... in this folder. The go command has to be installed, and the
program has to build.`,
		Example: migrateExamples,
		RunE:    func(cmd *cobra.Command, args []string) error { return runMigrate(cmd, args, write) },
	}
	cmd.Flags().BoolVarP(&write, "write", "w", false, "change the files (default: show a diff)")
	return cmd
}

func runMigrate(cmd *cobra.Command, args []string, write bool) error {
	for _, pattern := range args {
		if strings.HasPrefix(pattern, "-") || strings.Contains(pattern, "=") {
			return cli.Usage(fmt.Errorf("%q is not a package", pattern))
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	result, err := migrate.Run(cmd.Context(), migrate.Options{Dir: dir, Patterns: args})
	if err != nil {
		return err
	}
	var unwritten error
	if write {
		unwritten = result.Write()
	} else if err := cli.Write(cmd.OutOrStdout(), result.Diff(dir)); err != nil {
		return err
	}
	for line := range strings.Lines(result.Summary(dir, write)) {
		fmt.Fprintln(cmd.ErrOrStderr(), cli.Printable(strings.TrimSuffix(line, "\n"))) // if that fails there is nobody to report it to
	}
	if result.Broken {
		return errors.Join(unwritten, errors.New("packages that do not build were left alone"))
	}
	return unwritten
}
