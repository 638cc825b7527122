// Command soak has many clients follow two read replicas for long, while replicas are killed, connections are cut and
// the API server restarts. Every client checks what it sees, and all views are compared with the API server's again and
// again. It fails if one differs, or goes back, or if memory grows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	duration := flags.Duration("duration", 10*time.Minute, "how long")
	watchers := flags.Int("watchers", 200, "how many clients")
	seed := flags.Uint64("seed", rand.Uint64(), "repeats the choice of faults and changes, not their timing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *duration <= 0 || *watchers <= 0 {
		return errors.New("-duration and -watchers must be positive")
	}
	fmt.Printf("seed %d\n", *seed)
	w, err := newWorld(ctx, rand.New(rand.NewPCG(*seed, 0)))
	if err != nil {
		return errors.Join(err, w.close())
	}
	defer func() { err = errors.Join(err, w.close()) }()
	return w.soak(ctx, *duration, *watchers)
}

const (
	// roundTime is how long objects change before all views are compared.
	roundTime = 20 * time.Second
	// changeInterval is the time between changes.
	changeInterval = 20 * time.Millisecond
	// faultInterval is the mean time between faults.
	faultInterval = 4 * time.Second
	// settlePatience is how long views may take to become equal.
	settlePatience = time.Minute
)

// soak lets the clients follow for a duration.
func (w *world) soak(ctx context.Context, duration time.Duration, watchers int) error {
	clients, err := w.follow(ctx, watchers)
	if err != nil {
		return err
	}
	defer clients.stop()
	end := time.Now().Add(duration)
	var memory []float64
	for round := 1; time.Now().Before(end); round++ {
		if err := w.disturb(ctx, roundTime); err != nil {
			return err
		}
		if err := clients.settle(ctx, w); err != nil {
			return err
		}
		resident, err := w.resident()
		if err != nil {
			return err
		}
		memory = append(memory, resident)
		fmt.Printf("round %d: all %d views are equal; %s; %s; replica 0 takes %.0f MB\n", round, watchers, w.counts(),
			clients.counts(), resident/1e6)
	}
	return isFlat(memory)
}

// isFlat compares the last third of measurements with the third before: the first one fills the journals.
func isFlat(memory []float64) error {
	third := len(memory) / 3
	if third == 0 {
		return nil
	}
	middle, last := 0.0, 0.0
	for i := range third {
		middle, last = max(middle, memory[third+i]), max(last, memory[len(memory)-1-i])
	}
	const tolerated, noise = 1.2, 20e6
	if last > middle*tolerated+noise {
		return fmt.Errorf("memory grows: from %.0f MB to %.0f MB", middle/1e6, last/1e6)
	}
	return nil
}
