package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tidings/tidings/cmd/tidings/internal/cli"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version of this program",
		Example: "  # the version, and what it was built from\n  tidings version",
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return writeVersion(cmd) },
	}
}

func writeVersion(cmd *cobra.Command) error {
	return cli.Write(cmd.OutOrStdout(), []byte(version()+"\n"))
}

// version describes this program and what it was built from, as far as the build recorded that.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "tidings, version unknown"
	}
	return describe(info)
}

func describe(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	text := "tidings " + info.Main.Version
	if info.Main.Version == "" {
		text = "tidings (devel)"
	}
	if commit := settings["vcs.revision"]; commit != "" {
		text += " commit " + commit[:min(len(commit), 12)]
	}
	if settings["vcs.modified"] == "true" {
		text += " with local changes"
	}
	return fmt.Sprintf("%s (%s, %s/%s)", text, info.GoVersion, runtime.GOOS, runtime.GOARCH)
}
