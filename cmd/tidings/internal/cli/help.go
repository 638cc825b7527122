package cli

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
)

// checkHelp makes failures to write help an error, which failed returns. It also makes it an error
// to request help for a command, or completion for a shell, that does not exist.
func checkHelp(root *cobra.Command) (failed func() error) {
	var err error
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ",
		fmt.Sprintf("Flags.FlagUsagesWrapped %d ", helpWidth)))
	write := root.HelpFunc()
	root.SetHelpFunc(func(command *cobra.Command, args []string) {
		command.Long = reflow(command.Long, helpWidth)
		out := command.OutOrStdout()
		var text bytes.Buffer
		command.SetOut(&text)
		write(command, args)
		command.SetOut(out)
		_, err = out.Write(text.Bytes())
	})
	root.SetHelpCommand(helpCommand())
	root.InitDefaultCompletionCmd()
	if completion, _, findErr := root.Find([]string{"completion"}); findErr == nil && completion != root {
		completion.RunE = func(_ *cobra.Command, args []string) error {
			return Usage(fmt.Errorf("name a shell: bash, fish, powershell or zsh%s", butNot(args)))
		}
		completion.Args = cobra.ArbitraryArgs
		completion.Example = fmt.Sprintf("  # in this bash\n  source <(%[1]s completion bash)\n\n  # in every zsh\n  %[1]s completion zsh > \"${fpath[1]}/_%[1]s\"", root.Name())
		for _, shell := range completion.Commands() {
			shell.Args = NoArgs
			shell.RunE = writes(shell.RunE)
		}
	}
	return func() error { return err }
}

// helpWidth is the number of columns that help needs.
const helpWidth = 80

// reflow breaks the lines of paragraphs and list items anew. Other lines that are indented, such as commands, are kept.
func reflow(text string, width int) string {
	var lines []string
	joins := false // the next line goes on where the last one ended
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.TrimLeft(line, " \t")
		item, indented := strings.HasPrefix(words, "- "), words != line
		switch last := len(lines) - 1; {
		case words == "" || item || !joins || indented && !strings.HasPrefix(lines[last], " "):
			lines = append(lines, line)
		default:
			lines[last] += " " + words
		}
		joins = words != "" && (item || !indented || joins)
	}
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, " "):
			lines[i] = Wrap(line, width, 0)
		case !strings.HasPrefix(line, "\t"):
			lines[i] = ansi.Wrap(line, width, "")
		}
	}
	return strings.Join(lines, "\n")
}

// writes returns a function whose errors say that run could not write its output.
func writes(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		if err := run(command, args); err != nil {
			return outputError(err)
		}
		return nil
	}
}

// NoArgs is the cobra.PositionalArgs of a command without subcommands that takes no arguments.
func NoArgs(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, but got %q", command.Name(), args[0])
	}
	return nil
}

func butNot(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return fmt.Sprintf(", not %q", args[0])
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "help [COMMAND]",
		Short:             "Help about any command",
		Example:           "  # the flags of tail\n  tidings help tail",
		ValidArgsFunction: commandNames,
		RunE: func(help *cobra.Command, args []string) error {
			command, rest, err := help.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return Usage(fmt.Errorf("there is no command %q", strings.Join(args, " ")))
			}
			command.InitDefaultHelpFlag()
			return command.Help()
		},
	}
}

func commandNames(help *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, command := range help.Root().Commands() {
		if len(args) == 0 && command.IsAvailableCommand() && strings.HasPrefix(command.Name(), toComplete) {
			names = append(names, cobra.CompletionWithDesc(command.Name(), command.Short))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
