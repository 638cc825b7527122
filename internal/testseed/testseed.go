// Package testseed provides the seeds of property tests: random ones, or a given one to repeat a test.
package testseed

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Variable is the environment variable that fixes the seed, as a decimal number or a hexadecimal one with the prefix
// 0x.
const Variable = "TIDINGS_SEED"

// Seed returns the seed of a property test and logs how to repeat it. Without Variable each call returns a new seed.
// If Variable is not a number, the test fails.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, fixed, err := fromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	if !fixed {
		seed = rand.Uint64()
	}
	t.Logf("seed %d; repeat with %s=%d", seed, Variable, seed)
	return seed
}

// Rand returns a random number generator seeded with Seed.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 0))
}

// Each runs n subtests, each with its own seed. If Variable is set, it runs one with that seed.
func Each(t *testing.T, n int, test func(t *testing.T, seed uint64)) {
	t.Helper()
	_, fixed, err := fromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	if fixed {
		n = 1
	}
	for i := range n {
		t.Run(fmt.Sprint("run=", i), func(t *testing.T) { test(t, Seed(t)) })
	}
}

func fromEnvironment() (seed uint64, fixed bool, err error) {
	text, fixed := os.LookupEnv(Variable)
	if !fixed || text == "" {
		return 0, false, nil
	}
	seed, err = strconv.ParseUint(text, 0, 64)
	if err != nil {
		return 0, true, fmt.Errorf("%s: %w", Variable, err)
	}
	return seed, true, nil
}
