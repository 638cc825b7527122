// Package cli has what all commands share: exit codes, signals, logging, and a screen that combines results, messages
// and a progress line.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes of every command.
const (
	ExitOK      = 0 // done, or ended by the user: interrupted, or the output was closed
	ExitFailure = 1 // something went wrong
	ExitUsage   = 2 // invalid command line
)

// ErrOutputClosed says that the reader of standard output has gone. A command that ends with it exits with ExitOK.
var ErrOutputClosed = errors.New("the output has been closed")

// usageError marks an error as a mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks err as a mistake in the command line, which exits with ExitUsage. Usage(nil) is nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// Main runs the command that args name and returns the exit code. SIGINT and SIGTERM cancel the command's context; a
// second signal ends the process at once. An error is written to the command's standard error. Anything that fails
// before the command itself runs, such as an unknown flag, counts as a mistake in the command line.
func Main(root *cobra.Command, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	signal.Ignore(syscall.SIGPIPE) // a closed output is a write error, and does not end the process

	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	root.SetFlagErrorFunc(flagError)
	helpFailed := checkHelp(root)
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !started {
		err = Usage(err)
	}
	if failed := helpFailed(); err == nil && failed != nil {
		err = outputError(failed)
	}
	return report(ctx, command, err)
}

// Write writes text to the standard output of a command without a screen.
func Write(w io.Writer, text []byte) error {
	if _, err := w.Write(text); err != nil {
		return outputError(err)
	}
	return nil
}

// outputClosed reports whether err says that the reader of the output has gone. A broken connection
// to a server is no such error.
func outputClosed(err error) bool {
	file, ok := errors.AsType[*fs.PathError](err)
	return errors.Is(err, ErrOutputClosed) || ok && errors.Is(file, syscall.EPIPE)
}

// report reports err to the user and returns the exit code.
func report(ctx context.Context, command *cobra.Command, err error) int {
	if err == nil || outputClosed(err) || ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return ExitOK
	}
	stderr := command.ErrOrStderr()
	for line := range strings.SplitSeq(err.Error(), "\n") { // joined errors have one line each
		fmt.Fprintf(stderr, "error: %s\n", Printable(line))
	}
	if _, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintf(stderr, "see %s --help\n", command.CommandPath())
		return ExitUsage
	}
	return ExitFailure
}
