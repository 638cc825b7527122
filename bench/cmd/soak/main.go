// Command soak runs informers with hundreds of handlers against a real control plane that is
// written to, killed, restarted, restored from a backup and disconnected, and compares them with it
// again and again. It writes a table into ../docs/reliability.md and pictures beside it, and fails
// if anything differed or a goroutine leaked.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tidings/tidings/bench/internal/flags"
	"github.com/tidings/tidings/bench/internal/marks"
	"github.com/tidings/tidings/bench/internal/soak"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	page := flag.String("o", "../docs/reliability.md", "page to write the table into; - prints it")
	opts := soak.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	flag.DurationVar(&opts.Duration, "duration", 20*time.Minute, "how long to soak")
	flag.IntVar(&opts.Handlers, "handlers", 300, "handlers at a time")
	flag.IntVar(&opts.Writers, "writers", 4, "writers")
	flag.Uint64Var(&opts.Seed, "seed", uint64(time.Now().UnixNano()), "of the faults and writes")
	flag.Int64Var(&opts.Informers.MemoryBudget, "budget", 1<<20, "memory budget of all informers, in bytes, so tight that most objects are folded; 0 is none")
	flag.Parse()
	if err := flags.Positive(flag.CommandLine, "duration", "handlers", "writers"); err != nil {
		return err
	}
	opts.Log.Info("soaking", "duration", opts.Duration, "seed", opts.Seed)
	opts.Informers.Audit, opts.Informers.Logger = 20*time.Second, slog.New(slog.DiscardHandler)
	report, err := soak.Run(ctx, opts)
	if err != nil {
		return err
	}
	for _, why := range report.Inconclusive {
		opts.Log.Info("an audit was inconclusive", "why", why)
	}
	fmt.Fprint(os.Stderr, report.Stacks)
	return errors.Join(write(report, *page), report.Err())
}

func write(report *soak.Report, page string) error {
	if page == "-" {
		fmt.Print(report.Table())
		return nil
	}
	const folder = "pictures"
	picture := fmt.Sprintf("\n"+`<picture><source media="(prefers-color-scheme: dark)" srcset="%[1]s/soak-dark.svg"><img alt="Memory and goroutines over time" src="%[1]s/soak-light.svg"></picture>`, folder)
	return errors.Join(
		report.WritePictures(filepath.Join(filepath.Dir(page), folder)),
		marks.Replace(page, map[string]string{"soak": report.Table() + picture}),
	)
}
