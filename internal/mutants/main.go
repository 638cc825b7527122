// Mutants breaks the code of a package in small ways, one at a time, and reports which mutants its tests do not detect.
//
//	go run ./internal/mutants -n 40 ./deltafifo        # 40 random mutants of deltafifo, against its own tests
//	go run ./internal/mutants -tests . ./internal/engine
//	go run ./internal/mutants -C controllerruntime -files 'views\.go' -run View . # a part of a nested module
//
// The source tree is not changed: mutated files replace the originals through the go command's
// -overlay flag. Most mutants are compiled together, each with a switch, and a mutant that is
// switched on is only run against the tests that reach it. Mutants that do not compile do not
// count. Mutants known to change nothing but speed, or nothing at all, are listed in
// equivalent.txt.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"time"
)

// options select what is mutated, and the required detection rate.
type options struct {
	pkg, tests   string
	files, named string // regular expressions: which places are broken, and which tests should notice
	n            int
	seed         uint64
	timeout      time.Duration
	least        float64
	workers      int
}

func main() {
	var o options
	dir := flag.String("C", ".", "folder to work in, such as that of a nested module")
	flag.StringVar(&o.files, "files", "",
		"regular expression: breaks only what is in matching \"path/file.go: func name\"; empty means all")
	flag.StringVar(&o.named, "run", "",
		"regular expression: only tests with matching names should notice; empty means all")
	flag.StringVar(&o.tests, "tests", "", "package patterns whose tests should notice, separated by spaces; empty means the package's own")
	flag.IntVar(&o.n, "n", 40, "how many mutants to try; 0 tries all")
	flag.Uint64Var(&o.seed, "seed", rand.Uint64(), "seed of the choice")
	flag.DurationVar(&o.timeout, "timeout", 20*time.Second, "how much longer than ten times what they take the tests of a mutant may run; one that hangs is found")
	flag.Float64Var(&o.least, "least", 0.95, "the part of the mutants that has to be found")
	flag.IntVar(&o.workers, "workers", 2, "mutants that are tried at once")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "usage: mutants [flags] PACKAGE\n\nBreaks a package in small ways and reports what its tests do not notice.\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	o.pkg = flag.Arg(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := os.Chdir(*dir)
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	all, name, err := find(ctx, o.pkg)
	if err != nil {
		return err
	}
	all, err = within(all, o.files)
	if err != nil {
		return err
	}
	known, err := readEquivalent()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Printf("%s: %d places to break; seed %d\n", o.pkg, len(all), o.seed)
	t := trial{options: o, equivalent: known, dir: dir, name: name}
	if t.tests == "" {
		t.tests = o.pkg
	}
	result, err := t.run(ctx, choose(all, o.n, o.seed))
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d found, %d not, %d did not compile, %d equivalent: %.1f%%\n", o.pkg, result.found, len(result.alive), result.invalid, result.equivalent, 100*result.rate())
	if result.rate() < o.least {
		return fmt.Errorf("the tests find %.1f%% of the mutants of %s, and should find %.0f%%", 100*result.rate(), o.pkg, 100*o.least)
	}
	return nil
}

// within returns the mutants in files and functions that match a pattern.
func within(all []mutant, pattern string) ([]mutant, error) {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-files: %w", err)
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return !matches.MatchString(m.inFunction()) })
	if len(all) == 0 {
		return nil, fmt.Errorf("-files: %q matches no place to break; "+
			"it is compared with \"path/file.go: func name\"", pattern)
	}
	return all, nil
}

// choose returns n random mutants, or all.
func choose(all []mutant, n int, seed uint64) []mutant {
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if n > 0 {
		all = all[:min(n, len(all))]
	}
	return all
}

var errTests = errors.New("the tests fail without any mutant")
