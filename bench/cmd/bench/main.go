// Command bench compares Tidings with client-go, and writes RESULTS.md and the pictures beside it.
//
//	bench          measures everything, in about twenty minutes on two quiet cores
//	bench million  has Tidings hold a million pods, with a memory budget; the figures go into their own part of RESULTS.md
//	bench churn    has Tidings process two million events, none of which is like an earlier one
//
// -quick makes everything small, to check that it works; the figures are then meaningless. -rounds sets how often
// each measurement is repeated, and -latency-rounds how often latency is measured, which takes more than a minute
// each time. -only selects the measurements whose name contains a text.
//
// Each measurement runs in its own process, and so does the server: the commands "serve" and "measure" are for
// those.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == "serve" {
		return serve(args[1])
	}
	if len(args) == 2 && args[0] == "measure" {
		return measureOne(ctx, args[1])
	}
	command := ""
	if len(args) > 0 && (args[0] == "churn" || args[0] == "million") {
		command, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "measure small things, once")
	rounds := flags.Int("rounds", 0, "how often to measure everything; 0 means 3, and 1 with -quick")
	latency := flags.Int("latency-rounds", 0, "how often to measure latency; 0 means 1")
	events := flags.Int("churn", 0, "how many events the churn has; 0 means two million, and few with -quick")
	objects := flags.Int("objects", 0, "how many pods the command million has; 0 means a million, and few with -quick")
	only := flags.String("only", "", "measure only what has this in its name")
	out := flags.String("o", "", "file for the results (default RESULTS.md; with -only or -objects they are printed)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no command; there are churn and million", flags.Arg(0))
	}
	if err := noneNegative(flags); err != nil {
		return err
	}
	size := full
	if *quick {
		size = small
	}
	size.rounds, size.latencyRounds, size.churn = cmp.Or(*rounds, size.rounds), cmp.Or(*latency, size.latencyRounds), cmp.Or(*events, size.churn)
	size.million = cmp.Or(*objects, size.million)
	if size.million < leastMillion {
		return fmt.Errorf("client-go is measured with a twentieth of the pods, so they have to be at least %d", leastMillion)
	}
	s := &session{size: size, only: *only, log: os.Stderr}
	if command == "churn" {
		return s.printChurn(ctx, os.Stdout)
	}
	if command == "million" {
		if !*quick && *objects == 0 {
			*out = cmp.Or(*out, "RESULTS.md")
		}
		return s.million(ctx, *out)
	}
	if *only == "" {
		*out = cmp.Or(*out, "RESULTS.md")
	}
	return s.writeResults(ctx, *out)
}

// noneNegative returns an error that names a flag with a negative number.
func noneNegative(flags *flag.FlagSet) (err error) {
	flags.VisitAll(func(f *flag.Flag) {
		if n, ok := f.Value.(flag.Getter).Get().(int); ok && n < 0 {
			err = fmt.Errorf("-%s %d: must not be negative", f.Name, n)
		}
	})
	return err
}
