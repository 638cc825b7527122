// Command bench compares a read replica with the kube-apiserver behind it, in the same run, and writes SERVE.md.
//
// -quick makes everything small, to see that it works. -only selects measurements: memory, list, get, restart, watch,
// node, kill, creations, many. "-only many -many 20000" measures the memory that a replica takes for 20,000 pods, without
// kube-apiserver.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// size says how much is measured.
type size struct {
	Pods, Watchers, Restarts int
	Rate                     int           // changes a second
	GetRate                  int           // gets a second
	For                      time.Duration // each measurement with changes or gets
	Lists                    int
	Many                     int // pods that a server makes on the fly
}

var (
	full = size{
		Pods: 50_000, Watchers: 1000, Restarts: 500, Rate: 100, GetRate: 1000, For: 20 * time.Second, Lists: 5,
		Many: 2_000_000,
	}
	small = size{
		Pods: 500, Watchers: 20, Restarts: 10, Rate: 50, GetRate: 100, For: 2 * time.Second, Lists: 2, Many: 5_000,
	}
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
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "measure small things")
	only := flags.String("only", "",
		"measure only these, separated by commas: memory, list, get, restart, watch, node, kill, "+
			"creations, many")
	out := flags.String("o", "", "file for the results; they are printed without it")
	pods := flags.Int("pods", 0, "how many pods; 0 means 50,000, and 500 with -quick")
	many := flags.Int("many", 0,
		"how many pods a server makes on the fly (-only many); 0 means 2,000,000, and 5,000 with -quick")
	watchers := flags.Int("watchers", 0, "how many watchers; 0 means 1,000, and 20 with -quick")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s := full
	if *quick {
		s = small
	}
	for _, set := range []struct {
		value int
		field *int
	}{{*pods, &s.Pods}, {*watchers, &s.Watchers}, {*many, &s.Many}} {
		switch {
		case set.value < 0:
			return errors.New("-pods, -watchers and -many must not be negative")
		case set.value > 0:
			*set.field = set.value
		}
	}
	page, err := measure(ctx, s, *only)
	if err != nil {
		return err
	}
	if *out == "" {
		fmt.Print(page)
		return nil
	}
	return os.WriteFile(*out, []byte(page), 0o644)
}
